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

func (c *change) takesIn(new Object) bool {
	if c.new == nil || new == nil {
		return c.new != nil && c.old != nil
	}
	return c.new.GetUID() == new.GetUID()
}

func newTeller(f func(old, new Object)) *teller {
	return &teller{f: f, wake: make(chan struct{}, 1), last: map[types.NamespacedName]*change{}}
}

// add queues a change. An entry of the same object that is not told yet takes
// it in, but for two cases: after a deletion, which those who follow uids must
// hear of, and the deletion of what was not told of yet, since a handler that
// looked at the object in the view by itself must hear that it is gone.
func (t *teller) add(old, new Object) {
	obj := new
	if obj == nil {
		obj = old
	}
	key := keyOf(obj)
	t.mu.Lock()
	defer t.mu.Unlock()
	if had := t.last[key]; had != nil && had.takesIn(new) {
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
			t.f(c.old, c.new)
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
