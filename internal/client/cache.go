package client

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// cache is the picture behind the views that do not read the API server's own
// objects: the remote one and the faulty one. One feeder calls set and remove
// in order of revision; everything else may be called from many goroutines.
//
//	feeder --set, remove--> objects, indexes, revision --> Get, List, ByIndex
//	                             |                            WaitFor
//	                             +--> a teller for each handler --> f(old, new)
//
// A teller's backlog holds one entry for an object, however often it changes:
// a slow handler costs no more memory than the objects that come and go.
type cache struct {
	closed context.Context

	mu       sync.RWMutex
	spaces   map[string]map[string]Object // guarded by mu: by namespace, name
	indexes  map[string]*index            // guarded by mu
	tellers  map[*teller]struct{}         // guarded by mu
	revision uint64                       // guarded by mu: what the picture shows
	moved    chan struct{}                // guarded by mu: closed when revision moves
	synced   chan struct{}                // closed once, by setSynced
	once     sync.Once
}

type index struct {
	values func(Object) []string
	held   map[string]map[types.NamespacedName]Object
}

func newCache(ctx context.Context) *cache {
	return &cache{
		closed:  ctx,
		spaces:  map[string]map[string]Object{},
		indexes: map[string]*index{},
		tellers: map[*teller]struct{}{},
		moved:   make(chan struct{}),
		synced:  make(chan struct{}),
	}
}

// Get, List, Index, ByIndex, CountIndex, Handle, WaitSynced and WaitFor are View's.

func (c *cache) Get(namespace, name string) Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.spaces[namespace][name]
}

func (c *cache) List(namespace string) []Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.listLocked(namespace)
}

func (c *cache) listLocked(namespace string) []Object {
	if namespace != "" {
		return slices.Collect(maps.Values(c.spaces[namespace]))
	}
	var all []Object
	for _, space := range c.spaces {
		for _, obj := range space {
			all = append(all, obj)
		}
	}
	return all
}

func (c *cache) Index(name string, values func(Object) []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.indexes[name] != nil {
		return
	}
	ix := &index{values: values, held: map[string]map[types.NamespacedName]Object{}}
	for _, obj := range c.listLocked("") {
		ix.replace(nil, obj)
	}
	c.indexes[name] = ix
}

func (c *cache) ByIndex(name, value string) []Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.indexRLocked(name).held[value]))
}

func (c *cache) CountIndex(name, value string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.indexRLocked(name).held[value])
}

func (c *cache) indexRLocked(name string) *index {
	ix := c.indexes[name]
	if ix == nil {
		panic("client: no index " + strconv.Quote(name) + " in this view")
	}
	return ix
}

func (c *cache) Handle(f func(old, new Object)) (remove func()) {
	t := newTeller(f)
	c.mu.Lock()
	for _, obj := range c.listLocked("") {
		t.add(nil, obj)
	}
	c.tellers[t] = struct{}{}
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(c.closed)
	go t.run(ctx)
	return func() {
		cancel()
		c.mu.Lock()
		delete(c.tellers, t)
		c.mu.Unlock()
	}
}

func (c *cache) WaitSynced(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.closed.Done():
		return context.Cause(c.closed)
	}
}

func (c *cache) WaitFor(ctx context.Context, resourceVersion string) error {
	want := revisionOf(resourceVersion)
	for {
		c.mu.RLock()
		reached, moved := c.revision >= want, c.moved
		c.mu.RUnlock()
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.closed.Done():
			return context.Cause(c.closed)
		}
	}
}

// set shows obj, at its own revision.
func (c *cache) set(obj Object) {
	c.change(obj.GetNamespace(), obj.GetName(), obj, obj.GetResourceVersion())
}

// remove takes an object away, at the revision of the deletion.
func (c *cache) remove(namespace, name, resourceVersion string) {
	c.change(namespace, name, nil, resourceVersion)
}

func (c *cache) change(namespace, name string, obj Object, resourceVersion string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	space := c.spaces[namespace]
	old := space[name]
	switch {
	case obj == nil:
		delete(space, name)
		if len(space) == 0 {
			delete(c.spaces, namespace)
		}
	case space == nil:
		c.spaces[namespace] = map[string]Object{name: obj}
	default:
		space[name] = obj
	}
	for _, ix := range c.indexes {
		ix.replace(old, obj)
	}
	c.tellLocked(old, obj)
	c.moveLocked(resourceVersion)
}

// tellLocked tells the handlers. An object that was deleted and made anew
// while nobody watched is two changes.
func (c *cache) tellLocked(old, obj Object) {
	for t := range c.tellers {
		switch {
		case old == nil && obj == nil:
		case old != nil && obj != nil && old.GetUID() != obj.GetUID():
			t.add(old, nil)
			t.add(nil, obj)
		default:
			t.add(old, obj)
		}
	}
}

// replace shows exactly objs, as a list at resourceVersion found them.
func (c *cache) replace(objs []Object, resourceVersion string) {
	there := make(map[types.NamespacedName]struct{}, len(objs))
	for _, obj := range objs {
		key := keyOf(obj)
		there[key] = struct{}{}
		if had := c.Get(key.Namespace, key.Name); had == nil || had.GetResourceVersion() != obj.GetResourceVersion() {
			c.change(key.Namespace, key.Name, obj, "")
		}
	}
	for _, had := range c.List("") {
		if _, ok := there[keyOf(had)]; !ok {
			c.remove(had.GetNamespace(), had.GetName(), "")
		}
	}
	c.move(resourceVersion)
	c.setSynced()
}

// move says that the picture is complete up to resourceVersion.
func (c *cache) move(resourceVersion string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moveLocked(resourceVersion)
}

func (c *cache) moveLocked(resourceVersion string) {
	if to := revisionOf(resourceVersion); to > c.revision {
		c.revision = to
		close(c.moved)
		c.moved = make(chan struct{})
	}
}

func (c *cache) setSynced() { c.once.Do(func() { close(c.synced) }) }

func (ix *index) replace(old, new Object) {
	if old != nil {
		key := keyOf(old)
		for _, v := range ix.values(old) {
			delete(ix.held[v], key)
			if len(ix.held[v]) == 0 {
				delete(ix.held, v)
			}
		}
	}
	if new != nil {
		key := keyOf(new)
		for _, v := range ix.values(new) {
			if ix.held[v] == nil {
				ix.held[v] = map[types.NamespacedName]Object{}
			}
			ix.held[v][key] = new
		}
	}
}

func keyOf(obj Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// revisionOf reads a resourceVersion; "" and what is no number are 0, that is,
// no demand at all.
func revisionOf(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Later tells whether resourceVersion a is later than b. They are numbers; ""
// is earlier than any.
func Later(a, b string) bool { return revisionOf(a) > revisionOf(b) }
