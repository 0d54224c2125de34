package local

import "github.com/setpoint-project/setpoint/internal/store"

// log holds the newest events. Every revision is one event, so an event's
// place follows from its revision:
//
//	base            base+chunkLen                     revision
//	 ├── chunk ──────┼── chunk ───────┼── chunk ───────┤ (rest unused)
//
// A log is a view: it never changes, while the writer fills the unused rest of
// the last chunk, which no reader of the view looks at, for the next view.
type log struct {
	base   int64 // revision of chunks[0].events[0]
	next   int64 // revision that the next event will have
	chunks []*chunk
}

const chunkLen = 256

type chunk struct {
	events [chunkLen]store.Event
	bytes  int // what only this chunk keeps in memory
}

// limits bounds a log.
type limits struct {
	events int64
	bytes  int
}

func newLog(revision int64) log { return log{base: revision + 1, next: revision + 1} }

// since tells whether the log has every event after revision.
func (l log) since(revision int64) bool { return revision+1 >= l.base }

// at returns the event of a revision that the log holds.
func (l log) at(revision int64) store.Event {
	i := revision - l.base
	return l.chunks[i/chunkLen].events[i%chunkLen]
}

// after visits the events after revision, oldest first.
func (l log) after(revision int64, visit func(store.Event) bool) {
	for r := max(revision+1, l.base); r < l.next; r++ {
		if !visit(l.at(r)) {
			return
		}
	}
}

// logWriter makes the views of a log. It belongs to the writer.
type logWriter struct {
	log
	limits
	bytes int
}

func (l *logWriter) append(e store.Event) {
	i := l.next - l.base
	if i/chunkLen == int64(len(l.chunks)) {
		// A fresh slice: the views share the old one, and appending in place
		// would keep dropped chunks alive behind it.
		l.chunks = append(make([]*chunk, 0, len(l.chunks)+1), l.chunks...)
		l.chunks = append(l.chunks, new(chunk))
	}
	c := l.chunks[i/chunkLen]
	c.events[i%chunkLen] = e
	b := cost(e)
	c.bytes += b
	l.bytes += b
	l.next++
}

// trim drops the oldest chunks until the log keeps its limits, and those that
// end at or before forget. The last chunk stays.
func (l *logWriter) trim(forget int64) {
	n := 0
	for n < len(l.chunks)-1 {
		base := l.base + chunkLen
		if l.bytes <= l.limits.bytes && l.next-base < l.limits.events && base-1 > forget {
			break
		}
		l.bytes -= l.chunks[n].bytes
		l.base = base
		n++
	}
	if n > 0 {
		l.chunks = append([]*chunk(nil), l.chunks[n:]...)
	}
}

// cost estimates what an event keeps in memory. Its record is live, or is the
// Prev of a later event and counted there; so only Prev counts. Decoded
// objects were measured at two to four times their encoding.
func cost(e store.Event) int {
	n := 0
	if e.Record.Value == nil {
		n += 64 // the record of a deletion is nobody else's
	}
	if e.Prev != nil {
		n += 64 + len(e.Prev.Value)
		if e.Prev.Decoded.Load() != nil {
			n += 3 * len(e.Prev.Value)
		}
	}
	return n
}
