package client

import (
	"context"
	"net/url"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// relistEvery is how often, in virtual time, a faulty view tells its handlers
// everything anew, as a view does whose connection broke.
const relistEvery = 30 * time.Second

// The reads of Interface.

func (c *Faulty) Get(ctx context.Context, res Resource, namespace, name string) (Object, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	return c.inner.Get(ctx, res, namespace, name)
}

func (c *Faulty) List(ctx context.Context, res Resource, namespace string, opts metav1.ListOptions) ([]Object, string, error) {
	if err := c.alive(); err != nil {
		return nil, "", err
	}
	return c.inner.List(ctx, res, namespace, opts)
}

func (c *Faulty) Watch(ctx context.Context, res Resource, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	return c.inner.Watch(ctx, res, namespace, opts)
}

func (c *Faulty) Raw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	return c.inner.Raw(ctx, path, query)
}

func (c *Faulty) Resources(ctx context.Context) ([]ResourceInfo, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	return c.inner.Resources(ctx)
}

func (c *Faulty) View(res Resource, opts ViewOptions) View {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := viewKey{res, opts}
	v := c.views[key]
	if v == nil {
		v = &faultyView{
			cache: newCache(c.ctx), client: c, name: res.Resource + opts.FieldSelector + opts.LabelSelector,
			inner: c.inner.View(res, opts), wake: make(chan struct{}, 1), told: map[*troubled]struct{}{},
		}
		c.views[key] = v
		go v.run()
	}
	return v
}

// faultyView shows what the view below it showed a while ago.
type faultyView struct {
	*cache
	client *Faulty
	name   string
	inner  View
	wake   chan struct{} // one slot

	// feed is held by whoever brings the cache forward: a refresh amid a
	// removal would show for ever what is gone. Taken before mu.
	feed sync.Mutex

	mu      sync.Mutex
	backlog []change               // guarded by mu
	told    map[*troubled]struct{} // guarded by mu: the handlers
}

func (v *faultyView) run() {
	if v.inner.WaitSynced(v.client.ctx) != nil {
		return
	}
	remove := v.inner.Handle(func(old, new Object) {
		v.mu.Lock()
		v.backlog = append(v.backlog, change{old: old, new: new})
		v.mu.Unlock()
		select {
		case v.wake <- struct{}{}:
		default:
		}
	})
	defer remove()
	v.refresh()
	v.setSynced()
	relist := time.NewTicker(relistEvery)
	defer relist.Stop()
	for {
		select {
		case <-v.client.ctx.Done():
			return
		case <-relist.C:
			if f := v.client.current(); f.LoseEvent+f.LateEvent > 0 {
				v.relist()
			}
		case <-v.wake:
			v.catchUp()
		}
	}
}

// catchUp shows what has happened, with a lag.
func (v *faultyView) catchUp() {
	for v.client.ctx.Err() == nil {
		v.mu.Lock()
		if len(v.backlog) == 0 {
			v.mu.Unlock()
			return
		}
		c := v.backlog[0]
		v.backlog = v.backlog[1:]
		v.mu.Unlock()
		obj := c.new
		if obj == nil {
			obj = c.old
		}
		if lag := v.client.current().Lag; lag > 0 {
			share := v.client.draw("lag" + v.name + keyOf(obj).String())
			time.Sleep(time.Duration(share * share * float64(lag)))
		}
		v.show(c)
	}
}

// show brings one change in, unless a refresh has shown a later state.
func (v *faultyView) show(c change) {
	v.feed.Lock()
	defer v.feed.Unlock()
	if c.new == nil {
		if had := v.cache.Get(c.old.GetNamespace(), c.old.GetName()); had != nil && had.GetUID() == c.old.GetUID() {
			v.cache.remove(c.old.GetNamespace(), c.old.GetName(), "")
		}
		return
	}
	had := v.cache.Get(c.new.GetNamespace(), c.new.GetName())
	there := v.inner.Get(c.new.GetNamespace(), c.new.GetName())
	if had != nil && !Later(c.new.GetResourceVersion(), had.GetResourceVersion()) || had == nil && there == nil {
		v.cache.move(c.new.GetResourceVersion())
		return
	}
	v.cache.set(c.new)
}

// refresh shows the present.
func (v *faultyView) refresh() {
	v.feed.Lock()
	defer v.feed.Unlock()
	there := map[types.NamespacedName]bool{}
	latest := ""
	for _, obj := range v.inner.List("") { // in no order of revision
		there[keyOf(obj)] = true
		if had := v.cache.Get(obj.GetNamespace(), obj.GetName()); had == nil || Later(obj.GetResourceVersion(), had.GetResourceVersion()) {
			v.cache.change(obj.GetNamespace(), obj.GetName(), obj, "")
		}
		if Later(obj.GetResourceVersion(), latest) {
			latest = obj.GetResourceVersion()
		}
	}
	for _, obj := range v.cache.List("") {
		if !there[keyOf(obj)] && v.inner.Get(obj.GetNamespace(), obj.GetName()) == nil {
			v.cache.remove(obj.GetNamespace(), obj.GetName(), "")
		}
	}
	v.cache.move(latest)
}

// relist shows the present and tells every handler everything.
func (v *faultyView) relist() {
	v.refresh()
	v.mu.Lock()
	var handlers []*troubled
	for t := range v.told {
		handlers = append(handlers, t)
	}
	v.mu.Unlock()
	for _, t := range handlers {
		t.relist(v.cache.List(""))
	}
}

// WaitFor asks the view below when the change that it waits for does not come,
// which is so when the object was deleted meanwhile.
func (v *faultyView) WaitFor(ctx context.Context, resourceVersion string) error {
	for {
		brief, cancel := context.WithTimeout(ctx, v.client.current().Lag+time.Second)
		err := v.cache.WaitFor(brief, resourceVersion)
		cancel()
		if err == nil || ctx.Err() != nil || v.client.ctx.Err() != nil {
			return err
		}
		if err := v.inner.WaitFor(ctx, resourceVersion); err != nil {
			return err
		}
		v.refresh()
		v.cache.move(resourceVersion)
	}
}

func (v *faultyView) Handle(f func(old, new Object)) (remove func()) {
	t := &troubled{f: f, view: v, told: map[types.NamespacedName]Object{}}
	v.mu.Lock()
	v.told[t] = struct{}{}
	v.mu.Unlock()
	stop := v.cache.Handle(t.tell)
	return func() {
		stop()
		v.mu.Lock()
		delete(v.told, t)
		v.mu.Unlock()
		t.mu.Lock()
		t.f = func(_, _ Object) {}
		t.mu.Unlock()
	}
}

// troubled is a handler whose calls get lost, doubled and delayed. Calls for
// one object stay in order, as View promises.
type troubled struct {
	view *faultyView

	mu   sync.Mutex // held while f runs: calls never overlap
	f    func(old, new Object)
	told map[types.NamespacedName]Object // guarded by mu: what f was last told of each object
	held []types.NamespacedName          // guarded by mu: objects with a call that is late
}

func (t *troubled) tell(old, new Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	obj := new
	if obj == nil {
		obj = old
	}
	key := keyOf(obj)
	faults, thing := t.view.client.current(), t.view.name+key.String()
	if new == nil && t.told[key] == nil {
		// Its making was lost, or is late. The view has shown it all the same,
		// and who has seen it there must hear, now or at a relist, that it is
		// gone.
		t.told[key] = old
	}
	switch x := t.view.client.draw("event" + thing); {
	case x < faults.LoseEvent:
	case x < faults.LoseEvent+faults.LateEvent:
		t.held = append(t.held, key)
		delay := time.Duration(t.view.client.draw("late"+thing) * float64(time.Second))
		time.AfterFunc(delay, t.release)
	default:
		t.say(key, new)
		if t.view.client.draw("double"+thing) < faults.DoubleEvent {
			t.say(key, new)
		}
	}
}

// say tells f the present state of an object, with what it was told before.
func (t *troubled) say(key types.NamespacedName, new Object) {
	old := t.told[key]
	if old == nil && new == nil {
		return
	}
	if old != nil && new != nil && old.GetUID() != new.GetUID() {
		t.f(old, nil)
		old = nil
	}
	if new == nil {
		delete(t.told, key)
	} else {
		t.told[key] = new
	}
	t.f(old, new)
}

// release tells a late call, the youngest first. It tells the present state:
// calls of one object may be told as one.
func (t *troubled) release() {
	if t.view.client.ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.held); n > 0 {
		key := t.held[n-1]
		t.held = t.held[:n-1]
		t.say(key, t.view.cache.Get(key.Namespace, key.Name))
	}
}

func (t *troubled) relist(objs []Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = nil
	there := map[types.NamespacedName]bool{}
	for _, obj := range objs {
		there[keyOf(obj)] = true
		t.say(keyOf(obj), obj)
	}
	for key := range t.told {
		if !there[key] {
			t.say(key, nil)
		}
	}
}
