package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Matches tells whether a quota is about an object: whether all of its scopes
// hold. Scopes are about pods, and one about claims; a quota with a scope that
// is not about an object's kind is not about the object.
//
// See https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes.
func Matches(q *corev1.ResourceQuota, obj metav1.Object) bool {
	for _, r := range requirements(q) {
		if !holds(r, obj) {
			return false
		}
	}
	return true
}

func requirements(q *corev1.ResourceQuota) []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, s := range q.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		all = append(all, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

func holds(r corev1.ScopedResourceSelectorRequirement, obj metav1.Object) bool {
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok && r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass {
		var names []string
		for _, n := range []*string{claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName} {
			if n != nil {
				names = append(names, *n)
			}
		}
		return chosen(r, names...)
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return false
	}
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		if pod.Spec.PriorityClassName == "" {
			return chosen(r)
		}
		return chosen(r, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod)
	}
	return false
}

func chosen(r corev1.ScopedResourceSelectorRequirement, values ...string) bool {
	in := slices.ContainsFunc(values, func(v string) bool { return slices.Contains(r.Values, v) })
	switch r.Operator {
	case corev1.ScopeSelectorOpExists:
		return len(values) > 0
	case corev1.ScopeSelectorOpDoesNotExist:
		return len(values) == 0
	case corev1.ScopeSelectorOpIn:
		return in
	}
	return !in
}

// bestEffort pods ask for neither CPU nor memory.
func bestEffort(pod *corev1.Pod) bool {
	asks := func(list corev1.ResourceList) bool {
		return !list.Cpu().IsZero() || !list.Memory().IsZero()
	}
	return !asks(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})) &&
		!asks(resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}))
}

func crossesNamespaces(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil {
		return false
	}
	crosses := func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil }
	weighted := func(t corev1.WeightedPodAffinityTerm) bool { return crosses(t.PodAffinityTerm) }
	if p := a.PodAffinity; p != nil && (slices.ContainsFunc(p.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
		slices.ContainsFunc(p.PreferredDuringSchedulingIgnoredDuringExecution, weighted)) {
		return true
	}
	p := a.PodAntiAffinity
	return p != nil && (slices.ContainsFunc(p.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
		slices.ContainsFunc(p.PreferredDuringSchedulingIgnoredDuringExecution, weighted))
}
