package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
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
		Columns:                  bindingColumns(func(b *rbacv1.RoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects }),
	}
}
