package authz

import (
	"context"
	"errors"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/setpoint-project/setpoint/internal/client"
)

// writers at a time share the store's syncs.
const writers = 16

// EnsureDefaults makes the default roles and bindings that are missing, and
// gives those that are there the rules and subjects that they lack, unless
// somebody took the annotation off that asks for it. Namespaces must be there.
// Against a cluster that has them all it only reads.
func EnsureDefaults(ctx context.Context, c client.Interface) error {
	there := map[client.Resource]map[string]client.Object{}
	for _, res := range [...]client.Resource{ClusterRoles, ClusterRoleBindings, RolesResource, RoleBindings} {
		list, _, err := c.List(ctx, res, "", metav1.ListOptions{})
		if err != nil {
			return err
		}
		there[res] = map[string]client.Object{}
		for _, o := range list {
			there[res][o.GetNamespace()+"/"+o.GetName()] = o
		}
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, writers)
	defaults := Defaults()
	errs := make([]error, len(defaults))
	for i, d := range defaults {
		have := there[d.Resource][d.Object.GetNamespace()+"/"+d.Object.GetName()]
		wanted := d.Object
		if have != nil {
			if wanted = mended(have, d.Object); wanted == nil {
				continue
			}
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if have == nil {
				_, errs[i] = c.Create(ctx, d.Resource, wanted)
			} else {
				_, errs[i] = c.Update(ctx, d.Resource, wanted)
			}
			if apierrors.IsAlreadyExists(errs[i]) || apierrors.IsConflict(errs[i]) {
				errs[i] = nil // somebody else was here; the next start looks again
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// mended is a copy of what is there with what it lacks, nil if that is nothing.
func mended(have, want client.Object) client.Object {
	if have.GetAnnotations()[autoUpdate] != "true" {
		return nil
	}
	switch have := have.DeepCopyObject().(type) {
	case *rbacv1.ClusterRole:
		if have.AggregationRule != nil {
			return nil // a loop's
		}
		return withRules(have, &have.Rules, want.(*rbacv1.ClusterRole).Rules)
	case *rbacv1.Role:
		return withRules(have, &have.Rules, want.(*rbacv1.Role).Rules)
	case *rbacv1.ClusterRoleBinding:
		return withSubjects(have, &have.Subjects, want.(*rbacv1.ClusterRoleBinding).Subjects)
	case *rbacv1.RoleBinding:
		return withSubjects(have, &have.Subjects, want.(*rbacv1.RoleBinding).Subjects)
	}
	return nil
}

func withRules(role client.Object, rules *[]rbacv1.PolicyRule, want []rbacv1.PolicyRule) client.Object {
	covered, missing := validation.Covers(*rules, want)
	if covered {
		return nil
	}
	*rules = append(*rules, missing...)
	return role
}

func withSubjects(binding client.Object, subjects *[]rbacv1.Subject, want []rbacv1.Subject) client.Object {
	lacks := false
	for _, s := range want {
		if !slices.ContainsFunc(*subjects, func(o rbacv1.Subject) bool { return apiequality.Semantic.DeepEqual(o, s) }) {
			*subjects = append(*subjects, s)
			lacks = true
		}
	}
	if !lacks {
		return nil
	}
	return binding
}
