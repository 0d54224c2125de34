package apiserver

import "sync"

// topics are the subscribers of one resource, each in exactly one place.
type topics struct {
	all   map[*subscriber]struct{}
	space map[string]map[*subscriber]struct{}
	name  map[string]map[*subscriber]struct{} // by namespace/name
	node  map[string]map[*subscriber]struct{}
	woken []*subscriber // who got something in this batch
}

// subscriber is who gets changes.
type subscriber struct {
	res    *resource // guarded by the hub's mu where moved is set
	filter *filter
	limit  int // most changes queued, more cuts it off; 0: no limit

	signal chan struct{} // one slot: there is something, or the end
	// cut, when not nil, frees a reader who is stuck in a write when the
	// subscriber is cut off. It must not block.
	cut func()
	// moved, when not nil, lets the subscriber live on when the kind that it
	// follows is replaced: it is told by what. Else its end has come.
	moved func(*resource)

	mu    sync.Mutex
	queue []*change // guarded by mu
	woken bool      // owned by the hub; in topics.woken
	lost  bool      // guarded by mu; cut off, the queue is gone
	ended bool      // guarded by mu; the server stops, or the kind went or changed
}

// spareMax bounds the slices that a subscriber keeps for the next changes: after
// a burst, a quiet watch shall not hold on to a long one.
const spareMax = 64

func newSubscriber(res *resource, f *filter, limit int) *subscriber {
	return &subscriber{res: res, filter: f, limit: limit, signal: make(chan struct{}, 1)}
}

// put queues a change.
func (sub *subscriber) put(c *change) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.lost {
		return
	}
	if sub.limit > 0 && len(sub.queue) >= sub.limit {
		sub.lost, sub.queue = true, nil
		if sub.cut != nil {
			sub.cut()
		}
		return
	}
	sub.queue = append(sub.queue, c)
}

// take returns what is queued; spare is an old slice to queue into.
func (sub *subscriber) take(spare []*change) (changes []*change, lost, ended bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	changes = sub.queue
	if len(changes) > 0 {
		sub.queue = nil
		if cap(spare) <= spareMax {
			clear(spare[:cap(spare)])
			sub.queue = spare[:0]
		}
	}
	return changes, sub.lost, sub.ended
}

func (sub *subscriber) wake() {
	select {
	case sub.signal <- struct{}{}:
	default:
	}
}

func (sub *subscriber) end() {
	sub.mu.Lock()
	sub.ended = true
	sub.mu.Unlock()
	sub.wake()
}

func newTopics() *topics {
	return &topics{
		all: map[*subscriber]struct{}{}, space: map[string]map[*subscriber]struct{}{},
		name: map[string]map[*subscriber]struct{}{}, node: map[string]map[*subscriber]struct{}{},
	}
}

// place finds the one map that a subscriber belongs in.
func (t *topics) place(f *filter, namespaced bool) (in map[string]map[*subscriber]struct{}, key string) {
	switch {
	case f.node != "":
		return t.node, f.node
	case f.name != "" && (f.namespace != "" || !namespaced):
		return t.name, f.namespace + "/" + f.name
	case f.namespace != "":
		return t.space, f.namespace
	}
	return nil, ""
}

func (t *topics) add(sub *subscriber) {
	in, key := t.place(sub.filter, sub.res.namespaced)
	if in == nil {
		t.all[sub] = struct{}{}
		return
	}
	if in[key] == nil {
		in[key] = map[*subscriber]struct{}{}
	}
	in[key][sub] = struct{}{}
}

func (t *topics) remove(sub *subscriber) {
	in, key := t.place(sub.filter, sub.res.namespaced)
	if in == nil {
		delete(t.all, sub)
		return
	}
	delete(in[key], sub)
	if len(in[key]) == 0 {
		delete(in, key)
	}
}

func (t *topics) each(f func(*subscriber)) {
	for sub := range t.all {
		f(sub)
	}
	for _, in := range [...]map[string]map[*subscriber]struct{}{t.space, t.name, t.node} {
		for _, subs := range in {
			for sub := range subs {
				f(sub)
			}
		}
	}
}

func (t *topics) push(to map[*subscriber]struct{}, c *change) {
	for sub := range to {
		if sub.filter.matchesKey(c.namespace, c.name) {
			sub.put(c)
			if !sub.woken {
				sub.woken = true
				t.woken = append(t.woken, sub)
			}
		}
	}
}

// wake tells all who got something in this batch, once each.
func (t *topics) wake() {
	for i, sub := range t.woken {
		sub.woken = false
		sub.wake()
		t.woken[i] = nil
	}
	t.woken = t.woken[:0]
}
