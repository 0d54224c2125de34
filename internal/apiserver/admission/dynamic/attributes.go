package dynamic

import (
	"context"
	"encoding/json"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// view is a request in one version: its objects are converted once, for all
// who look at that version.
type view struct {
	version
	object, old runtime.Object // nil where there is none
	attrs       *upstream.VersionedAttributes
	request     *admissionv1.AdmissionRequest
}

// views are those of one request so far. A change of the object makes them
// anew.
type views struct {
	r  *admission.Request
	by map[string]*view
}

func (vs *views) in(v version) (*view, error) {
	key := v.gvk.String()
	if got := vs.by[key]; got != nil {
		return got, nil
	}
	made, err := newView(vs.r, v)
	if err != nil {
		return nil, err
	}
	if vs.by == nil {
		vs.by = map[string]*view{}
	}
	vs.by[key] = made
	return made, nil
}

func newView(r *admission.Request, v version) (*view, error) {
	out := &view{version: v}
	var err error
	if out.object, err = shown(r, r.Object, v); err != nil {
		return nil, err
	}
	if out.old, err = shown(r, r.Old, v); err != nil {
		return nil, err
	}
	if r.ConnectOptions != nil {
		out.object = r.ConnectOptions
		out.gvk = r.ConnectOptions.GetObjectKind().GroupVersionKind()
	}
	if sub := subtype(r); sub != nil {
		out.gvk = sub.GroupVersionKind
	}
	first := asked(r)
	if out.gvk != v.gvk {
		first.gvk = out.gvk
	}
	record := upstream.NewAttributesRecord(
		native(out.object), native(out.old), first.gvk, namespaceOf(r), nameOf(r), first.gvr, r.Subresource,
		upstream.Operation(r.Operation), options(r), r.DryRun, userInfo(r.User),
	)
	out.attrs = &upstream.VersionedAttributes{Attributes: record, VersionedKind: out.gvk}
	if o := native(out.object); o != nil {
		out.attrs.VersionedObject.Set(o)
	}
	if o := native(out.old); o != nil {
		out.attrs.VersionedOldObject.Set(o)
	}
	out.request = cel.CreateAdmissionRequest(record, metav1.GroupVersionResource(out.gvr), metav1.GroupVersionKind(out.gvk))
	return out, nil
}

// subtype is the subresource when it has a type of its own: a view (scale), or
// what is created on an object (binding, eviction).
func subtype(r *admission.Request) *kinds.Subresource {
	if sub := r.Kind.Subresources[r.Subresource]; r.Subresource != "" && sub != nil && (sub.Get != nil || !sub.GroupVersionKind.Empty() && r.Object != nil) {
		return sub
	}
	return nil
}

// newOf makes an empty object of a subtype.
func newOf(sub *kinds.Subresource, like kinds.Object) kinds.Object {
	if sub.NewView != nil {
		return sub.NewView()
	}
	return reflect.New(reflect.TypeOf(like).Elem()).Interface().(kinds.Object)
}

// shown is an object as a client of version v sees it, with its type.
func shown(r *admission.Request, obj kinds.Object, v version) (runtime.Object, error) {
	if obj == nil {
		return nil, nil
	}
	if sub := subtype(r); sub != nil {
		out := runtime.Object(nil)
		if sub.Get == nil {
			out = obj.DeepCopyObject()
		} else {
			view, err := sub.Get(obj)
			if err != nil {
				return nil, err
			}
			out = view
		}
		out.GetObjectKind().SetGroupVersionKind(sub.GroupVersionKind)
		return out, nil
	}
	if v.kinds.FromHub != nil {
		converted, err := v.kinds.FromHub(obj)
		if err != nil {
			return nil, err
		}
		obj = converted
	} else {
		obj = obj.DeepCopyObject().(kinds.Object)
	}
	obj.GetObjectKind().SetGroupVersionKind(v.gvk)
	return obj, nil
}

// native is what expressions read: custom objects as maps.
func native(obj runtime.Object) runtime.Object {
	if obj == nil {
		return nil
	}
	if d, ok := obj.(kinds.Dynamic); ok {
		return d.Unstructured()
	}
	return obj
}

func encode(obj runtime.Object) ([]byte, error) {
	if obj == nil {
		return nil, nil
	}
	if d, ok := obj.(kinds.Dynamic); ok {
		return d.EncodeJSON()
	}
	return json.Marshal(obj)
}

// options are those of the request, or what a request without any has.
func options(r *admission.Request) runtime.Object {
	var dryRun []string
	if r.DryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{Kind: kind, APIVersion: metav1.SchemeGroupVersion.String()}
	}
	switch r.Operation {
	case admission.Create:
		return &metav1.CreateOptions{TypeMeta: typed("CreateOptions"), DryRun: dryRun}
	case admission.Update:
		return &metav1.UpdateOptions{TypeMeta: typed("UpdateOptions"), DryRun: dryRun}
	case admission.Delete:
		return &metav1.DeleteOptions{TypeMeta: typed("DeleteOptions"), DryRun: dryRun}
	}
	return nil
}

func userInfo(u *authn.User) user.Info {
	if u == nil {
		return &user.DefaultInfo{}
	}
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}

// evaluate runs expressions over a request.
func (h *Hooks) evaluate(ctx context.Context, e cel.ConditionEvaluator, v *view, params runtime.Object, ns *corev1.Namespace) ([]cel.EvaluationResult, error) {
	results, _, err := e.ForInput(ctx, v.attrs, v.request, cel.OptionalVariableBindings{VersionedParams: params, Authorizer: asUpstream{h.cfg.Authorizer}}, cel.CreateNamespaceObject(ns), celconfig.RuntimeCELCostBudget)
	return results, err
}

// asUpstream lets expressions ask our authorizer.
type asUpstream struct{ authz.Authorizer }

// Authorize implements upstream's UnconditionalAuthorizer.
func (a asUpstream) Authorize(ctx context.Context, at authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.Authorizer == nil {
		return authorizer.DecisionAllow, "", nil
	}
	ours := &authz.Attributes{
		Verb: at.GetVerb(), Group: at.GetAPIGroup(), Version: at.GetAPIVersion(), Resource: at.GetResource(), Subresource: at.GetSubresource(),
		Namespace: at.GetNamespace(), Name: at.GetName(), Path: at.GetPath(), IsResource: at.IsResourceRequest(), User: &authn.User{},
	}
	if u := at.GetUser(); u != nil {
		ours.User = &authn.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	}
	allowed, reason := a.Authorizer.Authorize(ctx, ours)
	if allowed {
		return authorizer.DecisionAllow, reason, nil
	}
	return authorizer.DecisionNoOpinion, reason, nil
}
