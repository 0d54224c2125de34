package apiserver

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apply"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// serveSubresource serves the views of an object and what is created on one
// (binding, eviction).
func (x *exchange) serveSubresource() error {
	c := &x.call
	sub := c.sv.kind.Subresource(c.sv.version, c.sub)
	if sub == nil {
		return errNotServed()
	}
	x.s.metrics.inflight(c.verb, 1)
	defer x.s.metrics.inflight(c.verb, -1)
	done, err := x.limit()
	if err != nil {
		return err
	}
	defer done()
	if err := x.negotiate(); err != nil {
		return err
	}
	if c.verb == "create" {
		if err := x.query.writeOptions(c, "CreateOptions"); err != nil {
			return err
		}
		post := posts[c.sv.gr.String()+"/"+c.sub]
		if post == nil {
			return errMethod(c.sv, c.verb)
		}
		obj, err := x.decodeAs(post.gvk.Kind, func(data []byte, m medium) (kinds.Object, []error, error) {
			return decodeInto(data, m, c.fields, post.gvk, post.newObject)
		})
		if err != nil {
			return err
		}
		return x.answer(post.serve(x.s, c, obj))
	}
	if !slices.Contains(sub.Verbs, c.verb) || sub.NewView == nil && !sub.GroupVersionKind.Empty() {
		return errMethod(c.sv, c.verb)
	}
	switch c.verb {
	case "get":
		return x.answer(x.s.getView(c))
	case "update":
		if err := x.query.writeOptions(c, "UpdateOptions"); err != nil {
			return err
		}
		obj, err := x.decodeView(c.sv.view(sub))
		if err != nil {
			return err
		}
		return x.answer(x.s.updateView(c, obj))
	case "patch":
		pt, data, release, err := x.readPatch()
		if err != nil {
			return err
		}
		defer release()
		return x.answer(x.s.patchView(c, pt, data))
	}
	return errMethod(c.sv, c.verb)
}

func (x *exchange) decodeView(v viewType) (kinds.Object, error) {
	return x.decodeAs(v.gvk.Kind, func(data []byte, m medium) (kinds.Object, []error, error) {
		return decodeInto(data, m, x.call.fields, v.gvk, v.newObject)
	})
}

// viewType is the type in which a view is read and written.
type viewType struct {
	gvk       schema.GroupVersionKind
	newObject func() kinds.Object
	same      bool // it is the kind itself
}

func (sv *served) view(sub *kinds.Subresource) viewType {
	if sub.NewView == nil {
		return viewType{gvk: sv.gvk, newObject: sv.version.New, same: true}
	}
	return viewType{gvk: sub.GroupVersionKind, newObject: sub.NewView}
}

// getView reads a view.
func (s *Server) getView(c *call) (answer, error) {
	a, err := s.get(c)
	if err != nil {
		return a, err
	}
	return c.asView(a)
}

// asView turns an answer about the object into one about the view of it.
func (c *call) asView(a answer) (answer, error) {
	sub := c.sv.kind.Subresource(c.sv.version, c.sub)
	v := c.sv.view(sub)
	if v.same {
		return a, nil
	}
	obj, err := sub.Get(a.entry.obj)
	if err != nil {
		return answer{}, err
	}
	obj.GetObjectKind().SetGroupVersionKind(v.gvk)
	return answer{code: a.code, obj: obj, gvk: v.gvk}, nil
}

// updateView replaces a view. obj becomes the server's.
func (s *Server) updateView(c *call, obj kinds.Object) (answer, error) {
	sub := c.sv.kind.Subresource(c.sv.version, c.sub)
	if c.sv.view(sub).same {
		return s.update(c, obj)
	}
	if err := c.checkNames(obj); err != nil {
		return answer{}, err
	}
	return s.changeView(c, sub, func(kinds.Object) (kinds.Object, error) { return obj, nil })
}

// patchView patches a view.
func (s *Server) patchView(c *call, pt types.PatchType, data []byte) (answer, error) {
	sub := c.sv.kind.Subresource(c.sv.version, c.sub)
	v := c.sv.view(sub)
	if v.same {
		return s.patch(c, pt, data)
	}
	warned := len(c.warnings)
	return s.changeView(c, sub, func(live kinds.Object) (kinds.Object, error) {
		c.warnings = c.warnings[:warned]
		if isApply(pt) {
			obj, err := s.applyOnto(c, s.fieldsOfView(c.sv.resource, c.sub, v), live, data, pt, apply.Request{Subresource: c.sub, Manager: c.fieldManager()})
			c.tracked = err == nil
			return obj, err
		}
		return applyPatch(c, pt, data, live, v.newObject, v.gvk)
	})
}

// changeView writes the object as a changed view of it says, under the rules
// of the object. change makes the new view of the one that is there.
func (s *Server) changeView(c *call, sub *kinds.Subresource, change func(live kinds.Object) (kinds.Object, error)) (answer, error) {
	ch := c.sv.mainChange()
	if sub.PrepareUpdate != nil {
		ch.prepare = sub.PrepareUpdate
	}
	if sub.ValidateUpdate != nil {
		ch.validate = sub.ValidateUpdate
	}
	before := sub.Before
	if before == nil {
		before = sub.Get
	}
	ch.make = func(old kinds.Object) (kinds.Object, error) {
		managers := newViewManagers(c.sv, c.sub, old)
		live, err := before(old)
		if err != nil {
			return nil, err
		}
		live.GetObjectKind().SetGroupVersionKind(sub.GroupVersionKind)
		if err := managers.show(live); err != nil {
			return nil, err
		}
		c.tracked = false
		v, err := change(live)
		if err != nil {
			return nil, err
		}
		if !c.tracked {
			s.fieldsOfView(c.sv.resource, c.sub, c.sv.view(sub)).Track(live, v, apply.Request{Subresource: c.sub, Manager: c.fieldManager()})
			c.tracked = true
		}
		obj, err := sub.Set(old, v)
		if err != nil {
			return nil, err
		}
		obj.SetResourceVersion(v.GetResourceVersion())
		if uid := v.GetUID(); uid != "" {
			obj.SetUID(uid)
		}
		return obj, managers.keep(v, obj)
	}
	a, err := s.change(c, ch)
	if err != nil {
		return a, err
	}
	return c.asView(a)
}

// post is what can be created on an object.
type post struct {
	gvk       schema.GroupVersionKind
	newObject func() kinds.Object
	serve     func(s *Server, c *call, obj kinds.Object) (answer, error)
}

var posts = map[string]*post{
	"pods/binding": {
		gvk:       corev1.SchemeGroupVersion.WithKind("Binding"),
		newObject: func() kinds.Object { return &corev1.Binding{} },
		serve:     (*Server).bind,
	},
	"pods/eviction": {
		gvk:       policyv1.SchemeGroupVersion.WithKind("Eviction"),
		newObject: func() kinds.Object { return &policyv1.Eviction{} },
		serve:     (*Server).evict,
	},
}
