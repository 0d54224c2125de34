package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func clusterRoleBinding() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "clusterrolebindings"}, Kind: "ClusterRoleBinding", Singular: "clusterrolebinding",
		StoragePrefix:            "/registry/clusterrolebindings/",
		Versions:                 []kinds.Version{strategy.Version[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](v1, func(b *rbacv1.ClusterRoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) })},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		Columns:                  bindingColumns(func(b *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects }),
	}
}
