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

func role() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "roles"}, Kind: "Role", Singular: "role",
		Namespaced:               true,
		StoragePrefix:            "/registry/roles/",
		Versions:                 []kinds.Version{strategy.Version[rbacv1.Role, rbacv1.RoleList](v1, nil)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		ValidateName:             pathvalidation.ValidatePathSegmentName,
		Validate:                 strategy.Validate(validateRole),
		ValidateUpdate:           strategy.ValidateUpdate(func(r, _ *rbacv1.Role) field.ErrorList { return validateRole(r) }),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.CreatedAt(),
		},
	}
}

func validateRole(r *rbacv1.Role) field.ErrorList {
	var c check.Errors
	validateRules(&c, r.Rules, true)
	return c.List
}
