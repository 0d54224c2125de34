package client

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Faults says how a Faulty client goes wrong. Each rate is of 0 to 1. What
// goes wrong is drawn from Seed and from what is asked for, not from the order
// of requests, so that a seed replays well even when goroutines run in another
// order.
type Faults struct {
	Seed uint64

	// Of writes: refused (nothing happened), told to conflict (nothing
	// happened), or done with the answer lost.
	Refuse, Conflict, LoseAnswer float64
	// Of handler calls: lost until the next Calm or relist, made twice, or made
	// late and thus after younger ones of other objects.
	LoseEvent, DoubleEvent, LateEvent float64
	// Lag is the most by which a view is behind the server; each change is
	// drawn its own share of it. 0: views are immediate.
	Lag time.Duration
	// Slow is the most that a write takes to reach the server, and its answer to
	// come back; each is drawn its own share of it. Others write meanwhile, as
	// they do on a busy machine. 0: writes are immediate.
	Slow time.Duration
}

// ErrCrashed is what a Faulty client answers after its crash.
var ErrCrashed = errors.New("client: crashed")

// Write is one write that was asked of a Faulty client.
type Write struct {
	Verb      string // create, update, patch, delete, deletecollection
	Resource  Resource
	Sub       string // subresource
	Namespace string
	Name      string
	Done      bool  // it reached the server and the server agreed
	Err       error // what the caller was told
}

func (w Write) String() string {
	sub := ""
	if w.Sub != "" {
		sub = "/" + w.Sub
	}
	return fmt.Sprintf("%s %s%s %s/%s done=%t err=%v", w.Verb, w.Resource.Resource, sub, w.Namespace, w.Name, w.Done, w.Err)
}

// Faulty is a client for tests whose writes fail, whose events get lost and
// whose views lag. Reads are sound. Views and handlers end with Close.
type Faulty struct {
	inner  Interface
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	faults  Faults                  // guarded by mu; zero rates when calm
	asked   map[string]uint64       // guarded by mu: how often the same thing was drawn for
	writes  []Write                 // guarded by mu
	crashAt int                     // guarded by mu: 0 never
	before  bool                    // guarded by mu: crash before that write, not after
	crash   func()                  // guarded by mu
	onWrite func(Write)             // guarded by mu
	views   map[viewKey]*faultyView // guarded by mu
}

type viewKey struct {
	res  Resource
	opts ViewOptions
}

// WithFaults makes a client go wrong.
func WithFaults(inner Interface, f Faults) *Faulty {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Faulty{inner: inner, ctx: ctx, cancel: cancel, faults: f, asked: map[string]uint64{}, views: map[viewKey]*faultyView{}}
}

// CrashAt makes the client crash at its n-th write from now (the first is 1),
// before it reaches the server or after it was done and before anybody hears.
// From then on every request fails with ErrCrashed. crash is called once, from
// the goroutine that writes; it may cancel the loop.
func (c *Faulty) CrashAt(n int, before bool, crash func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crashAt, c.before, c.crash = len(c.writes)+n, before, crash
}

// Calm ends all faults, takes back CrashAt, and tells what was lost, as a relist does.
func (c *Faulty) Calm() {
	c.mu.Lock()
	c.faults = Faults{Seed: c.faults.Seed}
	c.crashAt = 0
	var views []*faultyView
	for _, v := range c.views {
		views = append(views, v)
	}
	c.mu.Unlock()
	for _, v := range views {
		v.relist()
	}
}

// OnWrite calls f for each write once it has ended, whatever came of it.
func (c *Faulty) OnWrite(f func(Write)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onWrite = f
}

// Close ends the client's views and handlers. Requests fail from then on.
func (c *Faulty) Close() { c.cancel(ErrCrashed) }

// Writes lists what was asked for so far.
func (c *Faulty) Writes() []Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Write(nil), c.writes...)
}

// current faults.
func (c *Faulty) current() Faults {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}

// draw gives a number of 0 to 1 for a thing, another each time it is asked.
func (c *Faulty) draw(thing string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[thing]++
	h := fnv.New64a()
	fmt.Fprint(h, c.faults.Seed, thing, c.asked[thing])
	x := h.Sum64()
	x ^= x >> 33 // FNV leaves the high bits of short texts alike
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// write carries out a write, or makes it go wrong.
func (c *Faulty) write(ctx context.Context, w Write, do func() (Object, error)) (Object, error) {
	if c.ctx.Err() != nil {
		return nil, ErrCrashed
	}
	n, crashes := c.begin(w)
	defer c.tell(n)
	if crashes && c.before {
		return nil, c.die(n)
	}
	f := c.current()
	what := w.Verb + w.Resource.String() + w.Sub + w.Namespace + "/" + w.Name
	if err := c.travel(ctx, f.Slow, what+"there"); err != nil {
		return nil, c.end(n, false, err)
	}
	group := w.Resource.GroupResource()
	var obj Object
	var err error
	done := false
	switch x := c.draw(what); {
	case x < f.Refuse:
		err = apierrors.NewTooManyRequests("fault: refused", 1)
		if c.draw(what+"refusal") < 0.5 {
			err = apierrors.NewForbidden(group, w.Name, errors.New("fault: refused"))
		}
	case x < f.Refuse+f.Conflict && w.Verb != "create":
		err = apierrors.NewConflict(group, w.Name, errors.New("fault: conflict"))
	default:
		obj, err = do()
		if done = err == nil; done && x > 1-f.LoseAnswer {
			obj, err = nil, apierrors.NewTimeoutError("fault: the answer is lost", 0)
		}
	}
	c.end(n, done, err)
	if crashes {
		return nil, c.die(n)
	}
	if lost := c.travel(ctx, f.Slow, what+"back"); lost != nil {
		return nil, c.end(n, done, lost)
	}
	return obj, err
}

// travel takes its share of the time that writes take at most. It fails when
// ctx ends or the client crashes meanwhile.
func (c *Faulty) travel(ctx context.Context, most time.Duration, what string) error {
	if most == 0 {
		return nil
	}
	share := c.draw(what)
	arrives := time.NewTimer(time.Duration(share * share * float64(most)))
	defer arrives.Stop()
	select {
	case <-arrives.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return ErrCrashed
	}
}

func (c *Faulty) begin(w Write) (n int, crashes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, w)
	return len(c.writes) - 1, len(c.writes) == c.crashAt
}

func (c *Faulty) end(n int, done bool, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes[n].Done, c.writes[n].Err = done, err
	return err
}

func (c *Faulty) tell(n int) {
	c.mu.Lock()
	f, w := c.onWrite, c.writes[n]
	c.mu.Unlock()
	if f != nil {
		f(w)
	}
}

func (c *Faulty) die(n int) error {
	c.cancel(ErrCrashed)
	c.mu.Lock()
	crash := c.crash
	c.writes[n].Err = ErrCrashed
	c.mu.Unlock()
	if crash != nil {
		crash()
	}
	return ErrCrashed
}

// alive is the answer to a read after the crash.
func (c *Faulty) alive() error {
	if c.ctx.Err() != nil {
		return ErrCrashed
	}
	return nil
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// The writes of Interface.

func (c *Faulty) Create(ctx context.Context, res Resource, obj Object, sub ...string) (Object, error) {
	name := obj.GetName()
	if name == "" {
		name = obj.GetGenerateName()
	}
	return c.write(ctx, Write{Verb: "create", Resource: res, Sub: firstOf(sub), Namespace: obj.GetNamespace(), Name: name},
		func() (Object, error) { return c.inner.Create(ctx, res, obj, sub...) })
}

func (c *Faulty) Update(ctx context.Context, res Resource, obj Object, sub ...string) (Object, error) {
	return c.write(ctx, Write{Verb: "update", Resource: res, Sub: firstOf(sub), Namespace: obj.GetNamespace(), Name: obj.GetName()},
		func() (Object, error) { return c.inner.Update(ctx, res, obj, sub...) })
}

func (c *Faulty) Patch(ctx context.Context, res Resource, namespace, name string, pt types.PatchType, data []byte, sub ...string) (Object, error) {
	return c.write(ctx, Write{Verb: "patch", Resource: res, Sub: firstOf(sub), Namespace: namespace, Name: name},
		func() (Object, error) { return c.inner.Patch(ctx, res, namespace, name, pt, data, sub...) })
}

func (c *Faulty) Delete(ctx context.Context, res Resource, namespace, name string, opts metav1.DeleteOptions) error {
	_, err := c.write(ctx, Write{Verb: "delete", Resource: res, Namespace: namespace, Name: name},
		func() (Object, error) { return nil, c.inner.Delete(ctx, res, namespace, name, opts) })
	return err
}

func (c *Faulty) DeleteCollection(ctx context.Context, res Resource, namespace string, del metav1.DeleteOptions, opts metav1.ListOptions) error {
	_, err := c.write(ctx, Write{Verb: "deletecollection", Resource: res, Namespace: namespace},
		func() (Object, error) { return nil, c.inner.DeleteCollection(ctx, res, namespace, del, opts) })
	return err
}
