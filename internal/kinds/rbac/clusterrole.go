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

func clusterRole() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "clusterroles"}, Kind: "ClusterRole", Singular: "clusterrole",
		StoragePrefix:            "/registry/clusterroles/",
		Versions:                 []kinds.Version{strategy.Version[rbacv1.ClusterRole, rbacv1.ClusterRoleList](v1, nil)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		ValidateName:             pathvalidation.ValidatePathSegmentName,
		Validate:                 strategy.Validate(validateClusterRole),
		ValidateUpdate:           strategy.ValidateUpdate(func(r, _ *rbacv1.ClusterRole) field.ErrorList { return validateClusterRole(r) }),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.CreatedAt(),
		},
	}
}

func validateClusterRole(r *rbacv1.ClusterRole) field.ErrorList {
	var c check.Errors
	validateRules(&c, r.Rules, false)
	validateAggregation(&c, r.AggregationRule)
	return c.List
}
