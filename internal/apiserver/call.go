package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// call is one request to one resource, however it came in.
type call struct {
	ctx       context.Context
	user      *authn.User
	sv        *served
	verb      string
	namespace string
	name      string
	sub       string
	dryRun    bool
	fields    fieldValidation
	warnings  []string

	agent   string // user agent: the field manager when the request names none
	manager string // field manager
	force   bool   // an apply takes what others manage
	tracked bool   // the object to be written has its managed fields

	admitted bool // a deletion that was admitted as something else: an eviction
}

// answer is what a call came to: an object of the resource, or another one.
type answer struct {
	code  int
	entry *entry
	obj   runtime.Object
	gvk   schema.GroupVersionKind
	gone  bool // of a deletion: the object is no longer there
}

func (c *call) warn(texts ...string) { c.warnings = append(c.warnings, texts...) }

// authorize asks whether the call may be made.
func (s *Server) authorize(ctx context.Context, a *authz.Attributes) error {
	if s.cfg.Authorizer == nil {
		return nil
	}
	allowed, reason := s.cfg.Authorizer.Authorize(ctx, a)
	if allowed {
		return nil
	}
	return forbidden(a, reason)
}

func forbidden(a *authz.Attributes, reason string) error {
	name := ""
	if a.User != nil {
		name = a.User.Name
	}
	var text string
	switch resource := a.Resource; {
	case !a.IsResource:
		text = fmt.Sprintf("User %q cannot %s path %q", name, a.Verb, a.Path)
	default:
		if a.Subresource != "" {
			resource += "/" + a.Subresource
		}
		if a.Namespace != "" {
			text = fmt.Sprintf("User %q cannot %s resource %q in API group %q in the namespace %q", name, a.Verb, resource, a.Group, a.Namespace)
		} else {
			text = fmt.Sprintf("User %q cannot %s resource %q in API group %q at the cluster scope", name, a.Verb, resource, a.Group)
		}
	}
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(text))
}

// attributes of the call, as authorization sees them. The namespace of a
// namespace is itself.
func (c *call) attributes() *authz.Attributes {
	a := &authz.Attributes{
		User: c.user, Verb: c.verb, IsResource: true,
		Group: c.sv.gvr.Group, Version: c.sv.gvr.Version, Resource: c.sv.gvr.Resource,
		Subresource: c.sub, Namespace: c.namespace, Name: c.name,
	}
	if c.sv.isNamespaces {
		a.Namespace = c.name
	}
	return a
}

// admit runs the plugins that may change the object. The func it returns must
// be called with the outcome of the request.
func (s *Server) admit(c *call, r *admission.Request) (done func(err error), err error) {
	r.User, r.Resource, r.Kind, r.Subresource = c.user, c.sv.gr, c.sv.kind, c.sub
	r.Namespace, r.DryRun = c.namespace, c.dryRun
	r.Version, r.Warn = c.sv.gvr.GroupVersion(), c.warn
	done = func(err error) {
		undo := r.Commit
		if err != nil || c.dryRun {
			undo = r.Rollback
		}
		for i := range undo {
			undo[len(undo)-1-i]()
		}
	}
	ask := func(plugins []admission.Plugin) error {
		for _, p := range plugins {
			if err := p.Admit(c.ctx, r); err != nil {
				done(err)
				return admissionError(c, r, err)
			}
		}
		return nil
	}
	if err := ask(s.cfg.Admission[:s.reinvoked]); err != nil {
		return nil, err
	}
	if r.Changed {
		r.Again = true
		if err := ask(s.cfg.Admission[:s.reinvoked]); err != nil {
			return nil, err
		}
	}
	if err := ask(s.cfg.Admission[s.reinvoked:]); err != nil {
		return nil, err
	}
	return done, nil
}

// reinvoked is how many plugins are asked again: those up to the last that
// changes objects as others say.
func reinvoked(plugins []admission.Plugin) int {
	for i := len(plugins); i > 0; i-- {
		if _, ok := plugins[i-1].(admission.Reinvoker); ok {
			return i
		}
	}
	return 0
}

// validateAdmission runs the plugins that only look.
func (s *Server) validateAdmission(c *call, r *admission.Request) error {
	for _, p := range s.cfg.Admission {
		if err := p.Validate(c.ctx, r); err != nil {
			return admissionError(c, r, err)
		}
	}
	return nil
}

// admissionError makes a plain error of a plugin a refusal.
func admissionError(c *call, r *admission.Request, err error) error {
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		return err
	}
	return apierrors.NewForbidden(c.sv.gr, r.Name, err)
}

// checkNamespace sees that an object's namespace is the request's.
func (c *call) checkNamespace(obj kinds.Object) error {
	switch ns := obj.GetNamespace(); {
	case ns == c.namespace:
	case ns == "", !c.sv.namespaced:
		obj.SetNamespace(c.namespace)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// success is the Status that answers what has no object to show.
func success(details *metav1.StatusDetails) answer {
	return answer{code: http.StatusOK, gvk: statusGVK, obj: &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusSuccess, Details: details,
	}}
}
