package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/store"
)

// hub follows the store with one watch and hands each change to those it
// concerns.
//
//	store.Watch --> hub --+-- by resource: everybody
//	                      +-- by namespace
//	                      +-- by namespace and name
//	                      +-- by node (pods)
//
// A subscriber gets the same *change as every other; encodings are made once,
// by the first who writes. The hub never waits for a subscriber.
//
// Catching up: a subscriber registers first, at the hub's revision, and then
// reads what came before from the store's own history; what it gets twice it
// leaves out by revision.
type hub struct {
	server *Server

	mu       sync.Mutex
	revision int64                                  // guarded by mu; the stream is complete up to here
	topics   map[*resource]*topics                  // guarded by mu
	waiters  map[chan struct{}]int64                // guarded by mu
	touched  []*topics                              // guarded by mu; with subscribers to wake
	orphans  map[schema.GroupResource][]*subscriber // guarded by mu; whose kind has gone, but may come again
	closed   bool                                   // guarded by mu
	started  chan struct{}                          // closed once revision is valid

	recent recentRecords // owned by the goroutine

	at atomic.Int64 // revision, for those who do not want the lock
}

// change is one change as all its subscribers share it.
type change struct {
	res             *resource
	ev              store.Event
	namespace, name string
	frames          frameCache
}

// everything begins the key of every object.
const everything = "/registry/"

// errHubStopped ends what follows the hub when the server stops.
var errHubStopped = errors.New("apiserver: the server is shutting down")

func newHub(s *Server) *hub {
	return &hub{server: s, topics: map[*resource]*topics{}, waiters: map[chan struct{}]int64{},
		orphans: map[schema.GroupResource][]*subscriber{}, started: make(chan struct{})}
}

// run follows the store until ctx ends.
func (h *hub) run(ctx context.Context) error {
	defer h.close()
	start := h.server.store.Revision()
	w, err := h.server.store.Watch(ctx, everything, start)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("watch the store: %w", err)
	}
	defer w.Close()
	h.mu.Lock()
	h.revision = start
	h.at.Store(start)
	h.mu.Unlock()
	close(h.started)
	for {
		events, upTo, err := w.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch the store: %w", err)
		}
		h.deliver(events, upTo)
	}
}

// deliver hands a batch to its subscribers.
func (h *hub) deliver(events []store.Event, upTo int64) {
	for i := range events {
		h.recent.take(&events[i])
		if h.server.cfg.CheckImmutable {
			checkRecord(events[i].Prev)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		h.route(&events[i])
	}
	h.revision = upTo
	h.at.Store(upTo)
	for _, t := range h.touched {
		t.wake()
	}
	clear(h.touched)
	h.touched = h.touched[:0]
	for ch, rv := range h.waiters {
		if rv <= upTo {
			close(ch)
			delete(h.waiters, ch)
		}
	}
}

// route finds the subscribers of one change.
func (h *hub) route(ev *store.Event) {
	res := h.server.resourceOfKey(ev.Record.Key)
	if res == nil {
		return
	}
	t := h.topics[res]
	if t == nil {
		return
	}
	c := &change{res: res, ev: *ev}
	c.namespace, c.name = res.names(ev.Record.Key)
	if len(t.woken) == 0 { // may list t twice: waking is idempotent
		h.touched = append(h.touched, t)
	}
	t.push(t.all, c)
	if len(t.space) > 0 {
		t.push(t.space[c.namespace], c)
	}
	if len(t.name) > 0 {
		t.push(t.name[c.namespace+"/"+c.name], c)
	}
	if len(t.node) > 0 {
		now, was := h.nodes(c)
		t.push(t.node[now], c)
		if was != now {
			t.push(t.node[was], c)
		}
	}
}

// nodes that a pod is bound to after and before a change.
func (h *hub) nodes(c *change) (now, was string) {
	if !c.ev.Deleted() {
		if e, err := h.server.peek(c.res, c.ev.Record); err == nil {
			now = nodeOf(e.obj)
		}
	}
	if c.ev.Prev != nil {
		if e, err := h.server.peek(c.res, c.ev.Prev); err == nil {
			was = nodeOf(e.obj)
		}
	}
	return now, was
}

// subscribe registers sub and returns the revision after which it gets every
// change.
func (h *hub) subscribe(ctx context.Context, sub *subscriber) (int64, error) {
	select {
	case <-h.started:
	default:
		select {
		case <-h.started:
		case <-h.server.stopping:
			return 0, errHubStopped
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return 0, errHubStopped
	}
	if now := h.server.catalog().byName[sub.res.gr]; now != sub.res { // since the request came in
		h.followLocked(sub, now)
	} else {
		h.addLocked(sub)
	}
	return h.revision, nil
}

func (h *hub) addLocked(sub *subscriber) {
	t := h.topics[sub.res]
	if t == nil {
		t = newTopics()
		h.topics[sub.res] = t
	}
	t.add(sub)
}

// succeedLocked hands the subscribers of one resource to the one that takes its
// place. Either may be nil.
func (h *hub) succeedLocked(old, now *resource) {
	if old != nil && h.topics[old] != nil {
		t := h.topics[old]
		delete(h.topics, old)
		t.each(func(sub *subscriber) { h.followLocked(sub, now) })
	}
	if now != nil {
		back := h.orphans[now.gr]
		delete(h.orphans, now.gr)
		for _, sub := range back {
			h.followLocked(sub, now)
		}
	}
}

// followLocked gives a subscriber what its resource has become, nil when it has
// gone.
func (h *hub) followLocked(sub *subscriber, now *resource) {
	switch {
	case sub.moved == nil:
		sub.end()
	case now == nil:
		h.orphans[sub.res.gr] = append(h.orphans[sub.res.gr], sub)
	default:
		sub.res = now
		sub.moved(now)
		h.addLocked(sub)
	}
}

func (h *hub) unsubscribe(sub *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[sub.res]; t != nil {
		t.remove(sub)
	}
}

// reach blocks until the hub has delivered revision rv, or ctx ends.
func (h *hub) reach(ctx context.Context, rv int64) error {
	if h.at.Load() >= rv {
		return nil
	}
	ch := make(chan struct{})
	h.mu.Lock()
	if h.revision >= rv {
		h.mu.Unlock()
		return nil
	}
	if h.closed {
		h.mu.Unlock()
		return errHubStopped
	}
	h.waiters[ch] = rv
	h.mu.Unlock()
	select {
	case <-ch:
		if h.at.Load() < rv {
			return errHubStopped
		}
		return nil
	case <-ctx.Done():
		h.mu.Lock()
		delete(h.waiters, ch)
		h.mu.Unlock()
		return ctx.Err()
	}
}

// close ends every subscriber.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, t := range h.topics {
		t.each(func(sub *subscriber) { sub.end() })
	}
	for ch := range h.waiters {
		close(ch)
		delete(h.waiters, ch)
	}
	h.server.log.LogAttrs(context.Background(), slog.LevelDebug, "hub stopped", slog.Int64("revision", h.revision))
}

// resourceOfKey finds whose key this is: "/registry/pods/..." or, for the
// prefixes of two parts, "/registry/services/specs/...".
func (s *Server) resourceOfKey(key string) *resource {
	const root = len(everything)
	if len(key) < root {
		return nil
	}
	i := strings.IndexByte(key[root:], '/')
	if i < 0 {
		return nil
	}
	first := root + i + 1
	byPrefix := s.catalog().byPrefix
	if res := byPrefix[key[:first]]; res != nil {
		return res
	}
	if i = strings.IndexByte(key[first:], '/'); i < 0 {
		return nil
	}
	return byPrefix[key[:first+i+1]]
}
