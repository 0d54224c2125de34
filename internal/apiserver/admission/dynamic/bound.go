package dynamic

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/client"
)

// definition is what policies of either kind say of when they hold.
type definition struct {
	scope
	name      string
	paramKind *admissionregistrationv1.ParamKind
	ignore    bool // what cannot be evaluated is let pass
}

func newDefinition(name string, match *admissionregistrationv1.MatchResources, params *admissionregistrationv1.ParamKind, failure *admissionregistrationv1.FailurePolicyType) definition {
	return definition{newScope(match), name, params, failure != nil && *failure == admissionregistrationv1.Ignore}
}

// attachment is what bindings of either kind say: where a policy holds.
type attachment struct {
	scope
	name, policy string
	paramRef     *admissionregistrationv1.ParamRef
	narrows      bool // it has resources or selectors of its own
}

func newAttachment(name, policy string, params *admissionregistrationv1.ParamRef, match *admissionregistrationv1.MatchResources) attachment {
	return attachment{newScope(match), name, policy, params, match != nil}
}

// applies tells whether a policy that is bound is for a request, and in which
// version it looks at it.
func (h *Hooks) applies(ctx context.Context, d *definition, a *attachment, r *admission.Request) (version, bool, error) {
	v, ok := d.match(r)
	if !ok {
		return v, false, nil
	}
	if ok, err := h.selects(ctx, &d.scope, r); !ok || err != nil {
		return v, false, err
	}
	if !a.narrows {
		return v, true, nil
	}
	if (len(a.rules) > 0 || len(a.excluded) > 0) && !a.means(r) {
		return v, false, nil
	}
	ok, err := h.selects(ctx, &a.scope, r)
	return v, ok, err
}

// means is match for a binding, which narrows what its policy is for: without
// rules it is for all of that.
func (a *attachment) means(r *admission.Request) bool {
	if len(a.rules) > 0 {
		_, ok := a.match(r)
		return ok
	}
	return !a.anyRule(a.excluded, r, asked(r))
}

// params are what a policy is evaluated with: once for each, once with nothing
// if it takes none.
func (h *Hooks) params(ctx context.Context, d *definition, a *attachment, r *admission.Request) ([]runtime.Object, error) {
	kind, ref := d.paramKind, a.paramRef
	if kind == nil || ref == nil {
		return []runtime.Object{nil}, nil
	}
	if h.cfg.Resource == nil {
		return nil, errors.New("no parameters can be read")
	}
	res, namespaced, ok := h.cfg.Resource(kind.APIVersion, kind.Kind)
	if !ok {
		return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%s, Kind=%s'", kind.APIVersion, kind.Kind)
	}
	namespace := ""
	switch {
	case !namespaced && ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case namespaced && ref.Namespace != "":
		namespace = ref.Namespace
	case namespaced:
		if namespace = namespaceOf(r); namespace == "" {
			return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
		}
	}
	found, err := h.find(ctx, res, namespace, ref)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		return found, nil
	}
	if missing := ref.ParameterNotFoundAction; missing != nil && *missing == admissionregistrationv1.AllowAction {
		return nil, nil
	}
	return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
}

func (h *Hooks) find(ctx context.Context, res client.Resource, namespace string, ref *admissionregistrationv1.ParamRef) ([]runtime.Object, error) {
	if ref.Selector == nil {
		obj, err := h.cfg.Get(ctx, res, namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []runtime.Object{native(obj)}, nil
	}
	list, err := h.cfg.List(ctx, res, namespace)
	if err != nil {
		return nil, err
	}
	sel := selector(ref.Selector)
	var out []runtime.Object
	for _, obj := range list {
		if sel.Matches(labels.Set(obj.GetLabels())) {
			out = append(out, native(obj))
		}
	}
	return out, nil
}
