package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func clusterRole() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "clusterroles"}, Kind: "ClusterRole", Singular: "clusterrole",
		StoragePrefix:            "/registry/clusterroles/",
		Versions:                 []kinds.Version{strategy.Version[rbacv1.ClusterRole, rbacv1.ClusterRoleList](v1, nil)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.CreatedAt(),
		},
	}
}
