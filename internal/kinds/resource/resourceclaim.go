package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func resourceClaim() *kinds.Kind {
	split := strategy.Of[resourcev1.ResourceClaim]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "resourceclaims"}, Kind: "ResourceClaim", Singular: "resourceclaim",
		Namespaced:               true,
		StoragePrefix:            "/registry/resourceclaims/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.ResourceClaim, resourcev1.ResourceClaimList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
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
