package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func resourceClaim() *kinds.Kind {
	split := strategy.Of[resourcev1.ResourceClaim]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "resourceclaims"}, Kind: "ResourceClaim", Singular: "resourceclaim",
		Namespaced:               true,
		StoragePrefix:            "/registry/resourceclaims/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.ResourceClaim, resourcev1.ResourceClaimList](v1, func(r *resourcev1.ResourceClaim) { defaultClaim(&r.Spec.Devices) })},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(func(r *resourcev1.ResourceClaim) field.ErrorList { return validateClaim(r, never) }),
		ValidateUpdate: strategy.ValidateUpdate(func(r, old *resourcev1.ResourceClaim) field.ErrorList {
			same := apiequality.Semantic.DeepEqual(r.Spec, old.Spec)
			c := check.Errors{List: validateClaim(r, unchanged(same))}
			if !same {
				c.Immutable(field.NewPath("spec"), "", r.Spec)
			}
			return c.List
		}),
		Subresources: map[string]*kinds.Subresource{
			"status": {Verbs: strategy.View(), PrepareUpdate: split.PrepareStatusOnly, ValidateUpdate: strategy.ValidateUpdate(validateClaimStatus)},
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("State", "string", "A summary of the current state (allocated, pending, reserved, etc.).", func(o *resourcev1.ResourceClaim) any { return state(o) }),
			strategy.Age(),
		},
	}
}

func state(c *resourcev1.ResourceClaim) string {
	var states []string
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case c.Status.Allocation == nil && c.DeletionTimestamp == nil:
		states = append(states, "pending")
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
	}
	if len(c.Status.ReservedFor) > 0 {
		states = append(states, "reserved")
	}
	return strings.Join(states, ",")
}

func validateClaim(r *resourcev1.ResourceClaim, was stored) field.ErrorList {
	var c check.Errors
	validateDeviceClaim(&c, &r.Spec.Devices, was, field.NewPath("spec", "devices"))
	return c.List
}
