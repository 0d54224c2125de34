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

func clusterRoleBinding() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "clusterrolebindings"}, Kind: "ClusterRoleBinding", Singular: "clusterrolebinding",
		StoragePrefix:            "/registry/clusterrolebindings/",
		Versions:                 []kinds.Version{strategy.Version[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](v1, func(b *rbacv1.ClusterRoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) })},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		ValidateName:             pathvalidation.ValidatePathSegmentName,
		Validate:                 strategy.Validate(validateClusterRoleBinding),
		ValidateUpdate: strategy.ValidateUpdate(func(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
			c := check.Errors{List: validateClusterRoleBinding(b)}
			roleKept(&c, b.RoleRef, old.RoleRef)
			return c.List
		}),
		Columns: bindingColumns(func(b *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects }),
	}
}

func validateClusterRoleBinding(b *rbacv1.ClusterRoleBinding) field.ErrorList {
	var c check.Errors
	validateBinding(&c, &b.RoleRef, b.Subjects, false, "ClusterRole")
	return c.List
}
