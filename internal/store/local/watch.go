package local

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/setpoint-project/setpoint/internal/store"
)

// watchEvents is the most events that one Next returns.
const watchEvents = 4096

// watch is a cursor into the log.
//
// The writer wakes only the watches that an event concerns, and leaves in
// first which event it was: a watch that slept through a thousand events of
// others skips them, and is not behind however long it slept. The writer never
// waits for a watch, and a watch that is awake already costs it one load.
type watch struct {
	s      *Store
	prefix string

	first  atomic.Int64  // earliest event since the watch last looked; 0: none
	notify chan struct{} // one slot
	end    chan struct{} // closed when the watch ends
	once   sync.Once
	stop   func() bool // ends the wait for the end of Watch's context
	place  int         // in its hub's list; guarded by hub.mu

	// Of the one goroutine in Next.
	cursor int64 // all up to here is delivered
	behind bool  // there may be more that first does not tell
	err    error
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) (store.Watch, error) {
	if err := s.reading(ctx); err != nil {
		return nil, err
	}
	if after < 0 {
		return nil, fmt.Errorf("store: revision %d is negative", after)
	}
	after = max(after, 1) // nothing ever happened at 1
	w := &watch{
		s:      s,
		prefix: prefix,
		notify: make(chan struct{}, 1),
		end:    make(chan struct{}),
		cursor: after,
		behind: true,
	}
	// Registered first, so that no event is missed between looking and waiting.
	s.hub.add(w)
	if after < s.Oldest() {
		s.hub.remove(w)
		return nil, store.ErrCompacted
	}
	// The watch ends with ctx, whether or not anyone is in Next.
	w.stop = context.AfterFunc(ctx, w.shut)
	return w, nil
}

// Next implements store.Watch.
func (w *watch) Next(ctx context.Context) ([]store.Event, int64, error) {
	if w.err != nil {
		return nil, 0, w.err
	}
	events, err := w.next(ctx)
	if err != nil {
		w.err = err
		w.Close()
		return nil, 0, err
	}
	return events, w.cursor, nil
}

func (w *watch) next(ctx context.Context) ([]store.Event, error) {
	for {
		select {
		case <-w.s.quit:
			return nil, store.ErrClosed
		case <-w.end:
			return nil, context.Canceled
		case <-ctx.Done():
			return nil, ctx.Err()
		default:
		}
		// In this order: what is published after the load is told by first.
		first := w.first.Swap(0)
		st := w.s.state.Load()
		if w.behind || first != 0 {
			if !w.behind {
				w.cursor = max(w.cursor, first-1)
			}
			events, err := w.read(st)
			if err != nil || len(events) > 0 {
				return events, err
			}
			continue
		}
		select {
		case <-w.notify:
		case <-w.end:
		case <-ctx.Done():
		case <-w.s.quit:
		}
	}
}

// read takes what matches from the log, or from the disk when the log no
// longer reaches back to the cursor.
func (w *watch) read(st *state) (events []store.Event, err error) {
	if w.cursor >= st.revision { // starts in the future
		w.behind = false
		return nil, nil
	}
	if !st.log.since(w.cursor) {
		if w.s.disk == nil {
			return nil, store.ErrCompacted
		}
		w.behind = true
		until := min(st.log.base-1, st.revision)
		events, w.cursor, err = w.s.disk.replay(w.s, w.prefix, w.cursor, until)
		return events, err
	}
	w.behind = false
	upTo := st.revision
	st.log.after(w.cursor, func(e store.Event) bool {
		if !strings.HasPrefix(e.Record.Key, w.prefix) {
			return true
		}
		if len(events) == watchEvents {
			upTo = events[len(events)-1].Record.Revision
			w.behind = true
			return false
		}
		events = append(events, e)
		return true
	})
	w.cursor = upTo
	return events, nil
}

// Close implements store.Watch.
func (w *watch) Close() {
	w.stop()
	w.shut()
}

func (w *watch) shut() {
	w.once.Do(func() {
		w.s.hub.remove(w)
		close(w.end)
	})
}

// hub finds the watches that a key concerns. They are kept by the folder of
// their prefix, the part up to its last slash: a key is looked up once per
// folder it lies in, however many watches there are elsewhere.
type hub struct {
	mu      sync.Mutex
	folders map[string][]*watch
}

func (h *hub) init() { h.folders = map[string][]*watch{} }

func folder(prefix string) string { return prefix[:strings.LastIndexByte(prefix, '/')+1] }

func (h *hub) add(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := folder(w.prefix)
	w.place = len(h.folders[f])
	h.folders[f] = append(h.folders[f], w)
}

func (h *hub) remove(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := folder(w.prefix)
	ws := h.folders[f]
	last := len(ws) - 1
	ws[w.place] = ws[last]
	ws[w.place].place = w.place
	ws[last] = nil
	if last == 0 {
		delete(h.folders, f)
		return
	}
	h.folders[f] = ws[:last]
}

// wake tells the watches about the events from revision first on.
func (h *hub) wake(l log, first int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := first; r < l.next; r++ {
		key := l.at(r).Record.Key
		h.wakeFolder("", key, r)
		for i := range len(key) {
			if key[i] == '/' {
				h.wakeFolder(key[:i+1], key, r)
			}
		}
	}
}

func (h *hub) wakeFolder(folder, key string, revision int64) {
	for _, w := range h.folders[folder] {
		if w.first.Load() != 0 || !strings.HasPrefix(key, w.prefix) {
			continue
		}
		w.first.Store(revision)
		select {
		case w.notify <- struct{}{}:
		default:
		}
	}
}
