package local

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/setpoint-project/setpoint/internal/store"
)

// batchBytes is how much one batch carries: half of a memtable, above which
// Pebble takes a slower path.
const batchBytes = 3 << 20

// write is one write on its way through the writer.
type write struct {
	put    store.Put // of a deletion only Key and Expect
	delete bool
	forget int64 // not 0: a compaction up to this revision instead

	// Set before done is closed.
	event store.Event
	err   error
	done  chan struct{}
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, p store.Put) (*store.Record, error) {
	w := &write{put: p}
	if err := s.submit(ctx, w); err != nil {
		return nil, err
	}
	return w.event.Record, nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string, expect int64) (store.Event, error) {
	w := &write{put: store.Put{Key: key, Expect: expect}, delete: true}
	if err := s.submit(ctx, w); err != nil {
		return store.Event{}, err
	}
	return w.event, nil
}

// Compact implements store.Store. It returns when history is refused to
// readers; the disk is freed in the background.
func (s *Store) Compact(ctx context.Context, revision int64) error {
	return s.submit(ctx, &write{forget: max(revision, 1)})
}

func (s *Store) submit(ctx context.Context, w *write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.forget == 0 {
		if err := checkKey(w.put.Key); err != nil {
			return err
		}
	}
	w.done = make(chan struct{})
	if err := s.w.enqueue(w); err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writer owns the live set and the log. Its goroutine alone touches the
// fields behind the queue.
type writer struct {
	s *Store

	queue struct {
		sync.Mutex
		writes []*write
		closed bool
	}
	kick   chan struct{} // one slot: the queue is not empty
	poison atomic.Pointer[error]

	live    tree // ahead of the published state while a batch is under way
	log     logWriter
	oldest  int64
	history history
	logger  *slog.Logger
	buf     []byte
}

func (w *writer) init(s *Store, st *state, o Options) {
	w.s = s
	w.kick = make(chan struct{}, 1)
	w.live = st.live
	w.log = logWriter{log: st.log, limits: o.logs}
	w.oldest = st.oldest
	w.history = newHistory(o, st.revision)
	w.logger = o.Logger
	// The tree that readers have must never be written to.
	st.live = w.live.snapshot()
}

func (w *writer) enqueue(x *write) error {
	w.queue.Lock()
	if w.queue.closed {
		w.queue.Unlock()
		return store.ErrClosed
	}
	w.queue.writes = append(w.queue.writes, x)
	w.queue.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
	return nil
}

func (w *writer) take() []*write {
	w.queue.Lock()
	defer w.queue.Unlock()
	q := w.queue.writes
	w.queue.writes = nil
	return q
}

func (w *writer) run() {
	for {
		select {
		case <-w.s.quit:
			w.queue.Lock()
			w.queue.closed = true
			w.queue.Unlock()
			for _, x := range w.take() {
				x.err = store.ErrClosed
				close(x.done)
			}
			return
		case <-w.kick:
		}
		for q := w.take(); len(q) > 0; {
			q = q[w.batch(q):]
		}
		// Whoever was just acknowledged may have its next write ready in a
		// moment: let it join the next batch instead of the one after.
		runtime.Gosched()
	}
}

// batch carries out some writes from the front of q, as one, and returns how
// many.
func (w *writer) batch(q []*write) int {
	var b *pebble.Batch
	if w.s.disk != nil && w.failed() == nil {
		b = w.s.disk.db.NewBatch()
		defer b.Close()
	}
	first := w.log.next
	n, bytes := 0, 0
	for n < len(q) && bytes < batchBytes {
		x := q[n]
		n++
		if x.err = w.failed(); x.err != nil {
			continue
		}
		if x.forget != 0 {
			x.err = w.forget(x.forget)
			continue
		}
		if x.event, x.err = w.apply(x); x.err == nil {
			bytes += len(x.event.Record.Value)
			if b != nil {
				if x.err = w.encode(b, x.event); x.err != nil {
					w.fail(x.err)
				}
			}
		}
	}
	events := w.log.log // before publish shortens it
	if err := w.commit(b, w.log.next > first); err != nil {
		for _, x := range q[:n] {
			if x.err == nil {
				x.err = err
			}
		}
	} else if w.log.next > first || w.oldest > w.s.Oldest() {
		w.publish()
	}
	for _, x := range q[:n] {
		close(x.done)
	}
	if w.log.next > first && w.failed() == nil {
		w.s.hub.wake(events, first)
	}
	return n
}

func (w *writer) commit(b *pebble.Batch, changed bool) error {
	if err := w.failed(); err != nil {
		return err
	}
	if b == nil || !changed {
		return nil
	}
	if err := w.s.disk.commit(b, true); err != nil {
		w.fail(err)
		return w.failed()
	}
	return nil
}

// apply checks the condition of a write and carries it out in memory.
func (w *writer) apply(x *write) (store.Event, error) {
	prev := w.live.get(x.put.Key)
	var have int64
	if prev != nil {
		have = prev.Revision
	}
	if (x.delete && prev == nil) || (x.put.Expect != store.Any && x.put.Expect != have) {
		return store.Event{}, &store.Conflict{Key: x.put.Key, Expect: x.put.Expect, Current: prev}
	}
	r := &store.Record{Key: x.put.Key, Revision: w.log.next, Created: w.log.next}
	if prev != nil {
		r.Key = prev.Key // one copy of the string for all versions
		r.Created = prev.Created
	}
	if x.delete {
		w.live.t.Delete(r)
	} else {
		value, decoded := x.put.Value, x.put.Decoded
		if x.put.Fill != nil {
			value, decoded = x.put.Fill(r.Revision)
		}
		if value == nil {
			value = []byte{} // nil is the mark of a deletion
		}
		r.Value = value
		if decoded != nil {
			r.Decoded.Store(&decoded)
		}
		w.live.t.Set(r)
	}
	e := store.Event{Record: r, Prev: prev}
	w.log.append(e)
	return e, nil
}

// encode adds a change to the batch.
func (w *writer) encode(b *pebble.Batch, e store.Event) error {
	r := e.Record
	c := change{revision: r.Revision, deleted: e.Deleted(), key: r.Key}
	if e.Prev != nil {
		c.prev = e.Prev.Revision
	}
	k := appendHistoryKey(w.buf[:0], c.revision)
	kv := appendChange(k, c)
	w.buf = kv
	if err := b.Set(k, kv[len(k):], nil); err != nil {
		return fmt.Errorf("store: cannot encode: %w", err)
	}
	k = appendVersionKey(w.buf[:0], r.Key, r.Revision)
	kv = appendVersion(k, r.Created, r.Value)
	w.buf = kv
	if cap(w.buf) > 1<<20 {
		w.buf = nil
	}
	if err := b.Set(k, kv[len(k):], nil); err != nil {
		return fmt.Errorf("store: cannot encode: %w", err)
	}
	return nil
}

// publish shows readers what the batch did.
func (w *writer) publish() {
	revision := w.log.next - 1
	w.oldest = max(w.oldest, w.history.forget(revision, w.oldest, time.Now()))
	memory := w.s.disk == nil
	if memory {
		w.log.trim(w.oldest)
		w.oldest = max(w.oldest, w.log.base-1)
	} else {
		w.log.trim(0)
	}
	old := w.s.state.Swap(&state{
		revision: revision,
		oldest:   w.oldest,
		live:     w.live.snapshot(),
		log:      w.log.log,
	})
	if !memory && old.oldest < w.oldest {
		select {
		case w.s.disk.compact <- struct{}{}:
		default:
		}
	}
}

// forget moves the oldest revision; publish makes it known.
func (w *writer) forget(revision int64) error {
	if revision >= w.log.next {
		return store.ErrFuture
	}
	w.oldest = max(w.oldest, revision)
	return nil
}

// fail makes the store refuse all later writes.
func (w *writer) fail(err error) {
	err = fmt.Errorf("store: a write could not be made durable, so no more are taken: %w", err)
	if w.poison.CompareAndSwap(nil, &err) {
		w.logger.Error("store failed", "err", err)
	}
}

func (w *writer) failed() error {
	if p := w.poison.Load(); p != nil {
		return *p
	}
	return nil
}

// Failed tells why the store takes no more writes; nil while it does. Only
// opening the store again mends it.
func (s *Store) Failed() error { return s.w.failed() }
