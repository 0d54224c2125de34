package garbage

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

// place is where an object lies. Its strings are those of the object.
type place struct {
	resource        schema.GroupResource
	namespace, name string
}

// graph knows, of each owner, what depends on it: edges by the owner's uid,
// whether the owner is there or not. It holds no objects; those are in the
// views.
type graph struct {
	mu         sync.Mutex
	dependents map[types.UID]map[place]struct{} // guarded by mu
}

func newGraph() *graph { return &graph{dependents: map[types.UID]map[place]struct{}{}} }

// move brings the edges of one object from old to new, either of which may be
// nil.
func (g *graph) move(at place, old, new client.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old != nil {
		for _, ref := range old.GetOwnerReferences() {
			delete(g.dependents[ref.UID], at)
			if len(g.dependents[ref.UID]) == 0 {
				delete(g.dependents, ref.UID)
			}
		}
	}
	if new != nil {
		for _, ref := range new.GetOwnerReferences() {
			if g.dependents[ref.UID] == nil {
				g.dependents[ref.UID] = map[place]struct{}{}
			}
			g.dependents[ref.UID][at] = struct{}{}
		}
	}
}

// of lists what depends on an owner.
func (g *graph) of(owner types.UID) []place {
	g.mu.Lock()
	defer g.mu.Unlock()
	places := make([]place, 0, len(g.dependents[owner]))
	for at := range g.dependents[owner] {
		places = append(places, at)
	}
	return places
}

// has tells whether anything depends on an owner.
func (g *graph) has(owner types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.dependents[owner]) > 0
}

// drop forgets the edges from all objects of a resource.
func (g *graph) drop(res schema.GroupResource) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for owner, places := range g.dependents {
		for at := range places {
			if at.resource == res {
				delete(places, at)
			}
		}
		if len(places) == 0 {
			delete(g.dependents, owner)
		}
	}
}

func sameRefs(a, b []metav1.OwnerReference) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].UID != b[i].UID || a[i].Name != b[i].Name {
			return false
		}
	}
	return true
}
