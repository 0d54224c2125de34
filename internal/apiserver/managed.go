package apiserver

import (
	"bytes"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/setpoint-project/setpoint/internal/apiserver/apply"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// fieldManagers keep the managed fields of a resource and of those of its views
// that are of another type. They are made when somebody first writes.
type fieldManagers struct {
	mu    sync.Mutex
	self  *apply.Kind            // guarded by mu
	views map[string]*apply.Kind // guarded by mu; by subresource
}

// fieldsOf is who keeps the managed fields of a resource.
func (s *Server) fieldsOf(res *resource) *apply.Kind {
	f := &res.fields
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.self == nil {
		f.self = s.managers.Kind(res.kind)
	}
	return f.self
}

// fieldsOfView is fieldsOf for a view of another type (scale).
func (s *Server) fieldsOfView(res *resource, name string, v viewType) *apply.Kind {
	f := &res.fields
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.views[name]
	if k == nil { // it is its own resource there: nothing of it is put back
		k = s.managers.Kind(&kinds.Kind{
			Resource: res.gr, Kind: v.gvk.Kind,
			Versions: []kinds.Version{{GroupVersion: v.gvk.GroupVersion(), New: v.newObject}},
		})
		if f.views == nil {
			f.views = map[string]*apply.Kind{}
		}
		f.views[name] = k
	}
	return k
}

// Fields is who merges the objects of a resource, or a view of them that is of
// another type; nil when there is no such thing.
func (s *Server) Fields(gr schema.GroupResource, sub string) *apply.Kind {
	res := s.catalog().byName[gr]
	if res == nil {
		return nil
	}
	if view := res.kind.Subresources[sub]; view != nil && view.NewView != nil {
		return s.fieldsOfView(res, sub, res.hub.view(view))
	}
	return s.fieldsOf(res)
}

// fieldManager is who manages the fields that a call writes.
func (c *call) fieldManager() string {
	if c.manager != "" {
		return c.manager
	}
	return apply.ManagerOf(c.agent)
}

// writes is the call as the field managers see it.
func (c *call) writes() apply.Request {
	return apply.Request{Version: c.sv.index, Subresource: c.sub, Manager: c.fieldManager()}
}

// track brings the managed fields of an object that is to be written up to
// date. old is nil for a new one. It comes before admission and the kind's own
// preparation: what those fill in belongs to nobody. Changes obj.
func (s *Server) track(c *call, obj, old kinds.Object) {
	if c.tracked {
		return // an apply made it
	}
	s.fieldsOf(c.sv.resource).Track(old, obj, c.writes())
}

// unchanged tells whether obj, encoded as value, is what is stored already. A
// manager who sets what was set before moves nothing but its own time: that is
// no change either.
func (res *resource) unchanged(value, stored []byte, obj, old kinds.Object) bool {
	if bytes.Equal(value, stored) {
		return true
	}
	if len(value) != len(stored) || !apply.OnlyTimesDiffer(obj.GetManagedFields(), old.GetManagedFields()) {
		return false
	}
	mine := obj.GetManagedFields()
	obj.SetManagedFields(old.GetManagedFields())
	again, err := res.encodeStored(obj)
	obj.SetManagedFields(mine)
	return err == nil && bytes.Equal(again, stored)
}

// viewManagers carry managed fields between an object and a view of another
// type: who manages the number of replicas of one does so in the other.
type viewManagers struct {
	*managedfields.ScaleHandler
	old, shown []metav1.ManagedFieldsEntry // of the object, and what its view shows of them
}

func newViewManagers(sv *served, name string, old kinds.Object) *viewManagers {
	paths := managedfields.ResourcePathMappings{}
	for i := range sv.kind.Versions {
		v := &sv.kind.Versions[i]
		sub := sv.kind.Subresource(v, name)
		if sub == nil {
			paths[v.GroupVersion.String()] = nil // it has managers, none of them of a scale
			continue
		}
		path := []any{"spec", "replicas"}
		if sub.Replicas != nil {
			path = path[:0]
			for _, field := range sub.Replicas {
				path = append(path, field)
			}
		}
		paths[v.GroupVersion.String()] = fieldpath.MakePathOrDie(path...)
	}
	had := old.GetManagedFields()
	return &viewManagers{ScaleHandler: managedfields.NewScaleHandler(had, sv.gvk.GroupVersion(), paths), old: had}
}

// show gives the managers of the object to the view. Changes view.
func (m *viewManagers) show(view kinds.Object) error {
	list, err := m.ToSubresource()
	m.shown = list
	view.SetManagedFields(list)
	return err
}

// keep gives those of the view to the object; where nothing has changed, the
// object's stay as they are, for the handler would make two of one who wrote
// the object itself. Changes obj.
func (m *viewManagers) keep(view, obj kinds.Object) error {
	if reflect.DeepEqual(view.GetManagedFields(), m.shown) {
		obj.SetManagedFields(m.old)
		return nil
	}
	list, err := m.ToParent(view.GetManagedFields())
	obj.SetManagedFields(list)
	return err
}
