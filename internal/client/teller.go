package client

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// teller tells one handler what changed, in order, from one goroutine.
type teller struct {
	f    func(old, new Object)
	wake chan struct{} // one slot

	mu      sync.Mutex
	backlog []*change                        // guarded by mu
	last    map[types.NamespacedName]*change // guarded by mu: newest entry in backlog of each object
}

type change struct {
	key      types.NamespacedName
	old, new Object
}

func newTeller(f func(old, new Object)) *teller {
	return &teller{f: f, wake: make(chan struct{}, 1), last: map[types.NamespacedName]*change{}}
}

// add queues a change. An entry of the same object that is not told yet takes
// it in, unless it is a deletion: whoever follows uids must hear of those.
func (t *teller) add(old, new Object) {
	obj := new
	if obj == nil {
		obj = old
	}
	key := keyOf(obj)
	t.mu.Lock()
	defer t.mu.Unlock()
	if had := t.last[key]; had != nil && had.new != nil && (new == nil || had.new.GetUID() == new.GetUID()) {
		had.new = new
	} else {
		c := &change{key: key, old: old, new: new}
		t.backlog = append(t.backlog, c)
		t.last[key] = c
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *teller) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		for ctx.Err() == nil {
			c := t.next()
			if c == nil {
				break
			}
			if c.old != nil || c.new != nil {
				t.f(c.old, c.new)
			}
		}
	}
}

func (t *teller) next() *change {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.backlog) == 0 {
		t.backlog = nil // lets go of the array
		return nil
	}
	c := t.backlog[0]
	t.backlog[0] = nil
	t.backlog = t.backlog[1:]
	if t.last[c.key] == c {
		delete(t.last, c.key)
	}
	return c
}
