package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// Rules that roles and bindings share.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/

func validateRules(c *check.Errors, rules []rbacv1.PolicyRule, namespaced bool) {
	for i := range rules {
		r, p := &rules[i], field.NewPath("rules").Index(i)
		if len(r.Verbs) == 0 {
			c.Required(p, "verbs", "verbs must contain at least one value")
		}
		if len(r.NonResourceURLs) > 0 {
			if namespaced {
				c.Invalid(p, "nonResourceURLs", r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
			}
			if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
				c.Invalid(p, "nonResourceURLs", r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
			}
			continue
		}
		if len(r.APIGroups) == 0 {
			c.Required(p, "apiGroups", "resource rules must supply at least one api group")
		}
		if len(r.Resources) == 0 {
			c.Required(p, "resources", "resource rules must supply at least one resource")
		}
	}
}

// validateBinding checks whom a binding gives what. roles are the kinds of
// roles that it may give.
func validateBinding(c *check.Errors, ref *rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool, roles ...string) {
	p := field.NewPath("roleRef")
	check.Among(c, p, "apiGroup", ref.APIGroup, rbacv1.GroupName)
	check.Among(c, p, "kind", ref.Kind, roles...)
	c.NamedSegment(p, "name", ref.Name, "")
	for i := range subjects {
		validateSubject(c, &subjects[i], namespaced, field.NewPath("subjects").Index(i))
	}
}

func validateSubject(c *check.Errors, s *rbacv1.Subject, namespaced bool, path *field.Path) {
	c.NotEmpty(path, "name", s.Name)
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			c.Subdomain(path, "name", s.Name)
		}
		check.Among(c, path, "apiGroup", s.APIGroup, "")
		if !namespaced {
			c.NotEmpty(path, "namespace", s.Namespace)
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		check.Among(c, path, "apiGroup", s.APIGroup, rbacv1.GroupName)
	default:
		check.Among(c, path, "kind", s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)
	}
}

// roleKept: a binding that gave another role would be another binding.
func roleKept(c *check.Errors, now, was rbacv1.RoleRef) {
	if now != was {
		c.Invalid(field.NewPath("roleRef"), "", now, "cannot change roleRef")
	}
}

func validateAggregation(c *check.Errors, r *rbacv1.AggregationRule) {
	if r == nil {
		return
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(r.ClusterRoleSelectors) == 0 {
		c.Required(path, "", "at least one clusterRoleSelector required if aggregationRule is non-nil")
	}
	for i := range r.ClusterRoleSelectors {
		s, p := &r.ClusterRoleSelectors[i], path.Index(i)
		c.Selector(p, "", s)
		if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
			c.Invalid(p, "", s, "invalid label selector.")
		}
	}
}
