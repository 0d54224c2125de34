package dynamic

import (
	"context"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// scope is what a webhook or a policy is for: a matcher of requests.
type scope struct {
	rules, excluded     []admissionregistrationv1.NamedRuleWithOperations
	equivalent          bool // other versions of a kind are meant as well
	namespaces, objects labels.Selector
}

func newScope(m *admissionregistrationv1.MatchResources) scope {
	if m == nil {
		return scope{namespaces: labels.Everything(), objects: labels.Everything()}
	}
	return scope{
		rules: m.ResourceRules, excluded: m.ExcludeResourceRules, equivalent: m.MatchPolicy == nil || *m.MatchPolicy == admissionregistrationv1.Equivalent,
		namespaces: selector(m.NamespaceSelector), objects: selector(m.ObjectSelector),
	}
}

// selector of what was validated; none selects everything.
func selector(s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return labels.Everything()
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return sel
}

// exempt are the objects by which admission is set up: were they subject to
// it, nobody could mend a mistake.
var exempt = []string{
	"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
	"validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
}

func isExempt(r *admission.Request) bool {
	return r.Resource.Group == admissionregistrationv1.GroupName && slices.Contains(exempt, r.Resource.Resource)
}

// version in which a request is looked at.
type version struct {
	kinds *kinds.Version
	gvr   schema.GroupVersionResource
	gvk   schema.GroupVersionKind
}

func versionOf(r *admission.Request, v *kinds.Version) version {
	return version{v, v.GroupVersion.WithResource(r.Kind.Resource.Resource), v.GroupVersion.WithKind(r.Kind.VersionKind(v))}
}

// asked is the version that the request is in.
func asked(r *admission.Request) version {
	for i := range r.Kind.Versions {
		if v := &r.Kind.Versions[i]; v.GroupVersion == r.Version {
			return versionOf(r, v)
		}
	}
	return versionOf(r, r.Kind.HubVersion())
}

// match tells whether the rules mean the request, and in which version.
func (s *scope) match(r *admission.Request) (version, bool) {
	first := asked(r)
	if s.anyRule(s.excluded, r, first) {
		return version{}, false
	}
	if s.anyRule(s.rules, r, first) {
		return first, true
	}
	if !s.equivalent {
		return version{}, false
	}
	for i := range r.Kind.Versions {
		v := versionOf(r, &r.Kind.Versions[i])
		if v.gvr == first.gvr {
			continue
		}
		if s.anyRule(s.excluded, r, v) {
			return version{}, false
		}
		if s.anyRule(s.rules, r, v) {
			return v, true
		}
	}
	return version{}, false
}

func (s *scope) anyRule(rules []admissionregistrationv1.NamedRuleWithOperations, r *admission.Request, v version) bool {
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return (len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, nameOf(r))) && ruleMeans(&rule.RuleWithOperations, r, v)
	})
}

func ruleMeans(rule *admissionregistrationv1.RuleWithOperations, r *admission.Request, v version) bool {
	if !slices.ContainsFunc(rule.Operations, func(o admissionregistrationv1.OperationType) bool {
		return o == admissionregistrationv1.OperationAll || string(o) == string(r.Operation)
	}) {
		return false
	}
	if !oneOf(rule.APIGroups, v.gvr.Group) || !oneOf(rule.APIVersions, v.gvr.Version) {
		return false
	}
	if rule.Scope != nil {
		switch *rule.Scope {
		case admissionregistrationv1.ClusterScope:
			if r.Kind.Namespaced {
				return false
			}
		case admissionregistrationv1.NamespacedScope:
			if !r.Kind.Namespaced {
				return false
			}
		}
	}
	return slices.ContainsFunc(rule.Resources, func(name string) bool {
		resource, sub, _ := strings.Cut(name, "/")
		return (resource == "*" || resource == v.gvr.Resource) && (sub == r.Subresource || sub == "*")
	})
}

func oneOf(list []string, s string) bool {
	return slices.Contains(list, s) || slices.Contains(list, "*")
}

// nameOf is the request's name as far as it has one.
func nameOf(r *admission.Request) string {
	if r.Name == "" && r.Object != nil {
		return r.Object.GetName()
	}
	return r.Name
}

func isNamespace(r *admission.Request) bool {
	return r.Resource.Group == "" && r.Resource.Resource == "namespaces"
}

// namespaceOf is the namespace that a request is about: that of a Namespace is
// itself.
func namespaceOf(r *admission.Request) string {
	if isNamespace(r) {
		return nameOf(r)
	}
	return r.Namespace
}

// namespace is the object of a request's namespace, nil for what is in none.
func (h *Hooks) namespace(ctx context.Context, r *admission.Request) (*corev1.Namespace, error) {
	if isNamespace(r) && r.Subresource == "" {
		if ns, ok := r.Object.(*corev1.Namespace); ok && ns != nil {
			return ns, nil
		}
		if ns, ok := r.Old.(*corev1.Namespace); ok && ns != nil {
			return ns, nil
		}
	}
	name := namespaceOf(r)
	if name == "" {
		return nil, nil
	}
	obj, err := h.cfg.Get(ctx, client.Namespaces, "", name)
	if err != nil {
		return nil, err
	}
	ns, _ := obj.(*corev1.Namespace)
	return ns, nil
}

// selects asks the selectors.
func (h *Hooks) selects(ctx context.Context, s *scope, r *admission.Request) (bool, error) {
	if !s.objects.Empty() && !hasLabels(s.objects, r.Object) && !hasLabels(s.objects, r.Old) {
		return false, nil
	}
	if s.namespaces.Empty() || namespaceOf(r) == "" {
		return true, nil
	}
	ns, err := h.namespace(ctx, r)
	if err != nil {
		return false, err
	}
	return s.namespaces.Matches(labels.Set(ns.GetLabels())), nil
}

func hasLabels(s labels.Selector, obj kinds.Object) bool {
	return obj != nil && s.Matches(labels.Set(obj.GetLabels()))
}
