package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func roleBinding() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "rolebindings"}, Kind: "RoleBinding", Singular: "rolebinding",
		Namespaced:               true,
		StoragePrefix:            "/registry/rolebindings/",
		Versions:                 []kinds.Version{strategy.Version[rbacv1.RoleBinding, rbacv1.RoleBindingList](v1, func(b *rbacv1.RoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) })},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		ValidateName:             pathvalidation.ValidatePathSegmentName,
		Validate:                 strategy.Validate(validateRoleBinding),
		ValidateUpdate: strategy.ValidateUpdate(func(b, old *rbacv1.RoleBinding) field.ErrorList {
			c := check.Errors{List: validateRoleBinding(b)}
			roleKept(&c, b.RoleRef, old.RoleRef)
			return c.List
		}),
		Columns: bindingColumns(func(b *rbacv1.RoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects }),
	}
}

func validateRoleBinding(b *rbacv1.RoleBinding) field.ErrorList {
	var c check.Errors
	validateBinding(&c, &b.RoleRef, b.Subjects, true, "Role", "ClusterRole")
	return c.List
}
