package resource

import (
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
		Columns: strategy.NameAge(),
	}
}
