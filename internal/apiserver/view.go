package apiserver

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

// view is a picture of a resource in this process. It keeps no objects: Get
// and List read the live store; what a selector or an index needs is pointers
// to records.
//
// A goroutine follows the hub for it, from the first time that a selector, an
// index or a handler asks for it. Reading a selector or an index first takes
// in what the hub has delivered, so it shows every write that WaitFor waited
// for.
type view struct {
	s        *Server
	cur      atomic.Pointer[served] // a custom kind may change under it
	filter   *filter
	metadata bool
	err      error // it may not, or cannot, be shown

	sub    *subscriber
	done   chan struct{} // closed by stop
	synced chan struct{} // closed once the first picture is complete
	gone   chan struct{} // closed when the goroutine has ended
	begin  sync.Once
	end    sync.Once

	mu       sync.Mutex
	loaded   bool                     // guarded by mu
	from     int64                    // guarded by mu; indexes and members show all up to here
	upTo     int64                    // guarded by mu; and nothing younger than this
	members  map[string]*store.Record // guarded by mu; by key, where a selector chooses
	indexes  map[string]*index        // guarded by mu
	pending  []viewEvent              // guarded by mu; not yet told to handlers
	handlers []*handler               // guarded by mu
	fresh    []*handler               // guarded by mu; not yet told what is there
	spare    []*change                // guarded by mu
}

type viewEvent struct{ old, new *entry }

type handler struct {
	f       func(old, new client.Object)
	removed atomic.Bool
}

// index finds records by a value that a func takes from the object.
type index struct {
	values func(client.Object) []string
	byKey  map[string][]string
	groups map[string]map[string]*store.Record // value -> key -> record
}

type viewKey struct {
	res  client.Resource
	opts client.ViewOptions
}

// View implements client.Interface. Views with equal options are one.
func (p *inProcess) View(res client.Resource, opts client.ViewOptions) client.View {
	if r := p.elsewhere(res); r != nil {
		return r.View(res, opts)
	}
	s := p.s
	sv := s.catalog().byGVR[res]
	if sv == nil {
		return failedView(errNotServed())
	}
	c := &call{ctx: context.Background(), user: p.user, sv: sv, verb: "list", namespace: opts.Namespace, name: pinnedName(opts.FieldSelector)}
	if err := s.authorize(c.ctx, c.attributes()); err != nil {
		return failedView(err)
	}
	f, err := newFilter(sv, opts.Namespace, opts.LabelSelector, opts.FieldSelector)
	if err != nil {
		return failedView(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := viewKey{res, opts}
	v := s.views[key]
	if v == nil {
		v = &view{
			s: s, filter: f, metadata: opts.Metadata,
			sub: newSubscriber(sv.resource, f, 0), done: make(chan struct{}), synced: make(chan struct{}), gone: make(chan struct{}),
			indexes: map[string]*index{},
		}
		v.cur.Store(sv)
		v.sub.moved = v.move
		if !f.plain() {
			v.members = map[string]*store.Record{}
		}
		sv.readers.views.Add(1)
		s.views[key] = v
		if !f.plain() {
			v.follow()
		}
	}
	return v
}

// served is the version that the view shows.
func (v *view) served() *served { return v.cur.Load() }

// move makes the view show what its kind has become. The hub calls it.
func (v *view) move(res *resource) {
	v.cur.Store(res.in(v.served()))
	res.readers.views.Add(1)
}

// failedView shows nothing and says why.
func failedView(err error) *view {
	v := &view{err: err, done: make(chan struct{}), synced: make(chan struct{}), gone: make(chan struct{}), indexes: map[string]*index{}}
	v.begin.Do(func() { close(v.gone) })
	return v
}

// follow starts the goroutine.
func (v *view) follow() {
	v.begin.Do(func() { go v.run() })
}

func (v *view) stop() {
	v.end.Do(func() { close(v.done) })
	v.begin.Do(func() { close(v.gone) })
	<-v.gone
}

func (v *view) run() {
	defer close(v.gone)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan struct{})
	defer close(stopped)
	go func() { // a view outlives every request: only the server ends it
		select {
		case <-v.done:
		case <-v.s.stopping:
		case <-stopped:
		}
		cancel()
	}()
	if _, err := v.s.hub.subscribe(ctx, v.sub); err != nil {
		return
	}
	defer v.s.hub.unsubscribe(v.sub)
	if err := v.load(ctx); err != nil {
		v.s.log.Error("a view cannot be shown", "resource", v.served().gvr.String(), "error", err)
		return
	}
	for {
		v.tell(ctx)
		select {
		case <-v.sub.signal:
		case <-ctx.Done():
			return
		}
	}
}

// load makes the first picture.
func (v *view) load(ctx context.Context) error {
	got, err := v.s.store.Range(ctx, store.Range{Prefix: v.filter.prefix(v.served().resource)})
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.from, v.upTo = got.Revision, got.Revision
	for _, rec := range got.Records {
		if v.shows(rec) != nil && v.members != nil {
			v.members[rec.Key] = rec
		}
	}
	v.loaded = true
	for _, ix := range v.indexes {
		v.fillLocked(ctx, ix)
	}
	close(v.synced)
	return nil
}

// shows returns the entry of a record that the view shows, else nil. It does
// not count as a use of the entry: see used.
func (v *view) shows(rec *store.Record) *entry {
	res := v.served().resource
	if ns, name := res.names(rec.Key); !v.filter.matchesKey(ns, name) {
		return nil
	}
	e, err := v.s.peek(res, rec)
	if err != nil {
		v.s.log.Error("an object cannot be read", "key", rec.Key, "error", err)
		return nil
	}
	if !v.filter.plain() && !v.filter.matchesObject(res, e.obj) {
		return nil
	}
	return e
}

// drainLocked takes in what the hub has delivered.
func (v *view) drainLocked() {
	if !v.loaded {
		return
	}
	at := v.s.hub.at.Load()
	changes, _, _ := v.sub.take(v.spare)
	for _, c := range changes {
		if c.ev.Record.Revision > v.from {
			v.applyLocked(c)
			v.upTo = c.ev.Record.Revision
		}
	}
	if len(changes) > 0 {
		v.spare = changes
	}
	v.from = max(v.from, at)
	v.upTo = max(v.upTo, v.from)
}

func (v *view) applyLocked(c *change) {
	var ev viewEvent
	if c.ev.Prev != nil {
		ev.old = v.shows(c.ev.Prev)
	}
	if !c.ev.Deleted() {
		ev.new = v.shows(c.ev.Record)
	}
	if ev.old == nil && ev.new == nil {
		return
	}
	key := c.ev.Record.Key
	if v.members != nil {
		if ev.new == nil {
			delete(v.members, key)
		} else {
			v.members[key] = c.ev.Record
		}
	}
	for _, ix := range v.indexes {
		ix.remove(key)
		if ev.new != nil {
			if obj := v.object(ev.new); obj != nil {
				ix.add(key, c.ev.Record, obj)
			}
		}
	}
	if len(v.handlers) > 0 {
		v.pending = append(v.pending, ev)
	}
}

func (ix *index) add(key string, rec *store.Record, obj client.Object) {
	values := ix.values(obj)
	if len(values) == 0 {
		return
	}
	ix.byKey[key] = values
	for _, value := range values {
		g := ix.groups[value]
		if g == nil {
			g = map[string]*store.Record{}
			ix.groups[value] = g
		}
		g[key] = rec
	}
}

func (ix *index) remove(key string) {
	values, ok := ix.byKey[key]
	if !ok {
		return
	}
	delete(ix.byKey, key)
	for _, value := range values {
		g := ix.groups[value]
		delete(g, key)
		if len(g) == 0 {
			delete(ix.groups, value)
		}
	}
}

// snapshotLocked lists the records that the view shows. They are those of upTo,
// since what was taken in before the hub said that it was done with it will not
// come again.
func (v *view) snapshotLocked(ctx context.Context) []*store.Record {
	if v.members != nil {
		return v.chosenLocked()
	}
	r := store.Range{Prefix: v.filter.prefix(v.served().resource), Revision: v.upTo}
	got, err := v.s.store.Range(ctx, r)
	if err != nil { // compacted: what is there now, and some changes told twice
		r.Revision = 0
		got, _ = v.s.store.Range(ctx, r)
	}
	out := make([]*store.Record, 0, len(got.Records))
	for _, rec := range got.Records {
		if v.shows(rec) != nil {
			out = append(out, rec)
		}
	}
	return out
}

func (v *view) fillLocked(ctx context.Context, ix *index) {
	for _, rec := range v.snapshotLocked(ctx) {
		e, err := v.s.peek(v.served().resource, rec)
		if err != nil {
			continue
		}
		if obj := v.object(e); obj != nil {
			ix.add(rec.Key, rec, obj)
		}
	}
}

// tell calls the handlers.
func (v *view) tell(ctx context.Context) {
	v.mu.Lock()
	v.drainLocked()
	pending, handlers, fresh := v.pending, v.handlers, v.fresh
	v.pending = nil
	var there []*store.Record
	if len(fresh) > 0 {
		there = v.snapshotLocked(ctx)
		v.fresh = nil
		v.handlers = append(append([]*handler(nil), handlers...), fresh...)
	}
	v.mu.Unlock()
	for _, ev := range pending {
		old, now := v.object(ev.old), v.object(ev.new)
		// What cannot be converted is not gone.
		hidden := now == nil && (ev.new != nil || old == nil)
		for _, h := range handlers {
			if !hidden && !h.removed.Load() {
				h.f(old, now)
			}
		}
	}
	for _, rec := range there {
		e, err := v.s.peek(v.served().resource, rec)
		if err != nil {
			continue
		}
		obj := v.object(e)
		for _, h := range fresh {
			if obj != nil && !h.removed.Load() {
				h.f(nil, obj)
			}
		}
	}
}

// object is what the view shows of an entry; nil when there is none, or when it
// cannot be converted.
func (v *view) object(e *entry) client.Object {
	if e == nil {
		return nil
	}
	if v.metadata { // which no conversion is needed for: it may be slow, or fail
		return partialMetadata(e.obj)
	}
	obj, err := v.served().fromHub(e.obj)
	if err != nil {
		return nil
	}
	if d, ok := obj.(kinds.Dynamic); ok {
		return d.Unstructured()
	}
	return obj
}

func (v *view) Get(namespace, name string) client.Object {
	if v.err != nil {
		return nil
	}
	rec, _, err := v.s.store.Get(context.Background(), v.served().key(namespace, name))
	if err != nil || rec == nil {
		return nil
	}
	return v.object(used(v.shows(rec)))
}

// used marks an entry as one that is worth keeping decoded.
func used(e *entry) *entry {
	if e != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

func (v *view) List(namespace string) []client.Object {
	if v.err != nil {
		return nil
	}
	if v.members == nil {
		f := *v.filter
		if namespace != "" {
			if f.namespace != "" && f.namespace != namespace {
				return nil
			}
			f.namespace = namespace
		}
		got, err := v.s.store.Range(context.Background(), store.Range{Prefix: f.prefix(v.served().resource)})
		if err != nil {
			return nil
		}
		return v.objects(got.Records, namespace)
	}
	return v.objects(v.chosen(), namespace)
}

// chosen are the records that a selector chooses now.
func (v *view) chosen() []*store.Record {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drainLocked()
	return v.chosenLocked()
}

func (v *view) chosenLocked() []*store.Record {
	return slices.AppendSeq(make([]*store.Record, 0, len(v.members)), maps.Values(v.members))
}

func (v *view) objects(records []*store.Record, namespace string) []client.Object {
	out := make([]client.Object, 0, len(records))
	for _, rec := range records {
		if namespace != "" {
			if ns, _ := v.served().names(rec.Key); ns != namespace {
				continue
			}
		}
		if obj := v.object(used(v.shows(rec))); obj != nil {
			out = append(out, obj)
		}
	}
	return out
}

// EachVersion is client.EachVersion.
func (v *view) EachVersion(f func(namespace, name, resourceVersion string)) {
	if v.err != nil {
		return
	}
	res := v.served().resource
	if v.members == nil {
		got, err := v.s.store.Range(context.Background(), store.Range{Prefix: v.filter.prefix(res)})
		if err != nil {
			return
		}
		for _, rec := range got.Records {
			if ns, name := res.names(rec.Key); v.filter.matchesKey(ns, name) {
				f(ns, name, formatRevision(rec.Revision))
			}
		}
		return
	}
	for _, rec := range v.chosen() {
		ns, name := res.names(rec.Key)
		f(ns, name, formatRevision(rec.Revision))
	}
}

func (v *view) Index(name string, values func(client.Object) []string) {
	if v.err != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.indexes[name] != nil {
		return
	}
	ix := &index{values: values, byKey: map[string][]string{}, groups: map[string]map[string]*store.Record{}}
	if v.loaded {
		v.drainLocked()
		v.fillLocked(context.Background(), ix)
	}
	v.indexes[name] = ix
	v.follow()
}

func (v *view) ByIndex(name, value string) []client.Object {
	v.mu.Lock()
	v.drainLocked()
	var records []*store.Record
	if ix := v.indexes[name]; ix != nil {
		for _, rec := range ix.groups[value] {
			records = append(records, rec)
		}
	}
	v.mu.Unlock()
	out := make([]client.Object, 0, len(records))
	for _, rec := range records {
		if obj := v.object(used(v.shows(rec))); obj != nil {
			out = append(out, obj)
		}
	}
	return out
}

func (v *view) Handle(f func(old, new client.Object)) (remove func()) {
	if v.err != nil {
		return func() {}
	}
	h := &handler{f: f}
	v.mu.Lock()
	v.fresh = append(v.fresh, h)
	v.mu.Unlock()
	v.follow()
	v.sub.wake()
	return func() {
		h.removed.Store(true)
		v.mu.Lock()
		defer v.mu.Unlock()
		kept := make([]*handler, 0, len(v.handlers))
		for _, other := range v.handlers {
			if other != h {
				kept = append(kept, other)
			}
		}
		v.handlers = kept
	}
}

func (v *view) WaitSynced(ctx context.Context) error {
	if v.err != nil {
		return v.err
	}
	v.follow()
	select {
	case <-v.synced:
		return nil
	default:
	}
	select {
	case <-v.synced:
		return nil
	case <-v.gone:
		return errHubStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (v *view) WaitFor(ctx context.Context, resourceVersion string) error {
	if v.err != nil {
		return v.err
	}
	rv, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return err
	}
	// A resourceVersion that a write returned is committed: the store shows
	// it. Selectors and indexes wait for the hub.
	v.mu.Lock()
	follows := v.members != nil || len(v.indexes) > 0
	v.mu.Unlock()
	if follows {
		if err := v.WaitSynced(ctx); err != nil {
			return err
		}
	}
	return v.s.hub.reach(ctx, rv)
}
