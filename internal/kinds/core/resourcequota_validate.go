package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// https://kubernetes.io/docs/concepts/policy/resource-quotas/

func validateResourceQuota(q *corev1.ResourceQuota) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	validateAmounts(&c, q.Spec.Hard, path.Child("hard"))
	validateScopes(&c, &q.Spec, path.Child("scopes"))
	if q.Spec.ScopeSelector != nil {
		validateScopeSelector(&c, &q.Spec, path.Child("scopeSelector", "matchExpressions"))
	}
	return c.List
}

func validateResourceQuotaUpdate(q, old *corev1.ResourceQuota) field.ErrorList {
	c := check.Errors{List: validateResourceQuota(q)}
	now, was := slices.Clone(q.Spec.Scopes), slices.Clone(old.Spec.Scopes)
	slices.Sort(now)
	slices.Sort(was)
	if !slices.Equal(slices.Compact(now), slices.Compact(was)) {
		c.Immutable(field.NewPath("spec", "scopes"), "", q.Spec.Scopes)
	}
	return c.List
}

func validateResourceQuotaStatus(q, _ *corev1.ResourceQuota) field.ErrorList {
	var c check.Errors
	validateAmounts(&c, q.Status.Hard, field.NewPath("status", "hard"))
	validateAmounts(&c, q.Status.Used, field.NewPath("status", "used"))
	return c.List
}

// standardQuota tells whether quotas know a resource by a name without domain.
func standardQuota(name corev1.ResourceName) bool {
	return standardResources[name] && name != corev1.ResourceStorage || quotaHugePages(name)
}

func quotaHugePages(name corev1.ResourceName) bool {
	return hugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

func validateAmounts(c *check.Errors, list corev1.ResourceList, path *field.Path) {
	for _, name := range sorted(list) {
		p := path.Key(string(name))
		if quotaHugePages(name) || resourceName(c, name, p) {
			if !strings.Contains(string(name), "/") && !standardQuota(name) {
				c.Invalid(p, "", name, "must be a standard resource for quota")
			}
		}
		validateQuantity(c, name, list[name], p)
	}
}

var quotaScopes = []corev1.ResourceQuotaScope{
	corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
	corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
	corev1.ResourceQuotaScopeVolumeAttributesClass,
}

// scopeApplies tells whether objects that use a resource can be of a scope.
func scopeApplies(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		switch name {
		case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory:
			return true
		}
		return false
	}
	return true
}

// validateScope checks one scope. value is what the messages show.
func validateScope(c *check.Errors, spec *corev1.ResourceQuotaSpec, scope corev1.ResourceQuotaScope, path, scopePath *field.Path, value, scopeValue any) {
	if !slices.Contains(quotaScopes, scope) {
		c.Invalid(scopePath, "", scopeValue, "unsupported scope")
	}
	for _, name := range sorted(spec.Hard) {
		if standardQuota(name) && !scopeApplies(scope, name) {
			c.Invalid(path, "", value, "unsupported scope applied to resource")
		}
	}
}

// conflicting tells whether scopes shut each other out.
func conflicting(scopes []corev1.ResourceQuotaScope) bool {
	both := func(a, b corev1.ResourceQuotaScope) bool {
		return slices.Contains(scopes, a) && slices.Contains(scopes, b)
	}
	return both(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort) ||
		both(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating)
}

func validateScopes(c *check.Errors, spec *corev1.ResourceQuotaSpec, path *field.Path) {
	for _, scope := range spec.Scopes {
		validateScope(c, spec, scope, path, path, spec.Scopes, spec.Scopes)
	}
	if conflicting(spec.Scopes) {
		c.Invalid(path, "", spec.Scopes, "conflicting scopes")
	}
}

func validateScopeSelector(c *check.Errors, spec *corev1.ResourceQuotaSpec, path *field.Path) {
	var scopes []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		scopes = append(scopes, r.ScopeName)
		validateScope(c, spec, r.ScopeName, path, path.Child("scopeName"), spec.ScopeSelector, r.ScopeName)
		if r.Operator != corev1.ScopeSelectorOpExists {
			switch r.ScopeName {
			case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
				corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
				c.Invalid(path, "operator", r.Operator, "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")
			}
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				c.Required(path, "values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				c.Invalid(path, "values", r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
			}
		default:
			c.Invalid(path, "operator", r.Operator, "not a valid selector operator")
		}
	}
	if conflicting(scopes) {
		c.Invalid(path, "", spec.Scopes, "conflicting scopes")
	}
}
