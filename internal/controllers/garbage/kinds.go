package garbage

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/client"
)

const (
	// kindsEvery is how often the served resources are asked for.
	kindsEvery = 10 * time.Second
	// patience is how long a resource that cannot be listed holds up those who
	// must know all dependents. A broken extension must not hold up the rest
	// for ever.
	patience = 30 * time.Second
)

// ignored are resources that own nothing and that nobody owns, in numbers that
// would cost: as upstream.
var ignored = map[schema.GroupResource]bool{
	{Resource: "events"}:                         true,
	{Group: "events.k8s.io", Resource: "events"}: true,
}

// monitor follows one resource.
type monitor struct {
	info   client.ResourceInfo
	view   client.View
	since  time.Time
	synced chan struct{} // closed once the view has shown everything
	stop   func()
}

// kinds are the resources that are followed. It changes while they are served
// or not.
type kinds struct {
	mu     sync.RWMutex
	byName map[schema.GroupResource]*monitor // guarded by mu
	byKind map[schema.GroupKind]*monitor     // guarded by mu
}

func newKinds() *kinds {
	return &kinds{byName: map[schema.GroupResource]*monitor{}, byKind: map[schema.GroupKind]*monitor{}}
}

func (k *kinds) named(res schema.GroupResource) *monitor {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byName[res]
}

func (k *kinds) ofKind(kind schema.GroupKind) *monitor {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byKind[kind]
}

// list is a snapshot of all monitors.
func (k *kinds) list() []*monitor {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return slices.Collect(maps.Values(k.byName))
}

// unsynced names a resource that has to be waited for before anybody can say
// what depends on an object; "" when there is none.
func (k *kinds) unsynced() string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if len(k.byName) == 0 {
		return "discovery"
	}
	for name, m := range k.byName {
		select {
		case <-m.synced:
		default:
			if time.Since(m.since) < patience {
				return name.String()
			}
		}
	}
	return ""
}

// follow brings the monitors in line with what is served: begin makes one for
// a new resource, end takes leave of one that is gone.
func (k *kinds) follow(infos []client.ResourceInfo, begin func(client.ResourceInfo) *monitor, end func(*monitor)) {
	served := make(map[schema.GroupResource]bool, len(infos))
	for _, info := range infos {
		res := info.Resource.GroupResource()
		if ignored[res] || !followable(info) {
			continue
		}
		served[res] = true
		if had := k.named(res); had != nil {
			if had.info.Resource == info.Resource && had.info.Kind == info.Kind && had.info.Namespaced == info.Namespaced {
				continue
			}
			k.remove(had)
			end(had)
		}
		m := begin(info)
		k.mu.Lock()
		k.byName[res] = m
		k.byKind[schema.GroupKind{Group: res.Group, Kind: info.Kind}] = m
		k.mu.Unlock()
	}
	k.mu.RLock()
	var gone []*monitor
	for res, m := range k.byName {
		if !served[res] {
			gone = append(gone, m)
		}
	}
	k.mu.RUnlock()
	for _, m := range gone {
		k.remove(m)
		end(m)
	}
}

func (k *kinds) remove(m *monitor) {
	k.mu.Lock()
	defer k.mu.Unlock()
	res := m.info.Resource.GroupResource()
	delete(k.byName, res)
	delete(k.byKind, schema.GroupKind{Group: res.Group, Kind: m.info.Kind})
}

func followable(info client.ResourceInfo) bool {
	for _, verb := range []string{"list", "watch", "delete"} {
		if !slices.Contains(info.Verbs, verb) {
			return false
		}
	}
	return true
}

// newMonitor follows a resource; handle hears of its changes.
func (c *Controller) newMonitor(ctx context.Context, info client.ResourceInfo) *monitor {
	ctx, cancel := context.WithCancel(ctx)
	m := &monitor{
		info: info, since: time.Now(), synced: make(chan struct{}),
		view: c.client.View(info.Resource, client.ViewOptions{Metadata: true}),
	}
	m.view.Index(byOwner, ownersOf)
	remove := m.view.Handle(func(old, new client.Object) { c.changed(m, old, new) })
	m.stop = func() { cancel(); remove() }
	c.running.Go(func() {
		if m.view.WaitSynced(ctx) == nil {
			close(m.synced)
		}
	})
	return m
}
