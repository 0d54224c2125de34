package garbage

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/client"
)

// patience is how long a resource that cannot be listed holds up those who
// must know all dependents. A broken extension must not hold up the rest for
// ever.
const patience = 30 * time.Second

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
	// deaf is when a request was last not answered in time, in nanoseconds;
	// 0 is never.
	deaf atomic.Int64
}

func (m *monitor) kind() schema.GroupKind {
	return schema.GroupKind{Group: m.info.Resource.Group, Kind: m.info.Kind}
}

// isSynced tells whether the view has shown everything.
func (m *monitor) isSynced() bool {
	select {
	case <-m.synced:
		return true
	default:
		return false
	}
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
		if !m.isSynced() && time.Since(m.since) < patience {
			return name.String()
		}
	}
	return ""
}

// follow brings the monitors in line with what is served: begin makes one for
// a new resource, end takes leave of one that is gone. It returns the new ones.
func (k *kinds) follow(infos []client.ResourceInfo, begin func(client.ResourceInfo) *monitor, end func(*monitor)) (begun []*monitor) {
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
		k.byKind[m.kind()] = m
		k.mu.Unlock()
		begun = append(begun, m)
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
	return begun
}

func (k *kinds) remove(m *monitor) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byName, m.info.Resource.GroupResource())
	delete(k.byKind, m.kind())
}

func followable(info client.ResourceInfo) bool {
	for _, verb := range []string{"list", "watch", "delete"} {
		if !slices.Contains(info.Verbs, verb) {
			return false
		}
	}
	return true
}
