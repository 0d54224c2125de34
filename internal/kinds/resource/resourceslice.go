package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func resourceSlice() *kinds.Kind {
	split := strategy.Counted[resourcev1.ResourceSlice]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "resourceslices"}, Kind: "ResourceSlice", Singular: "resourceslice",
		StoragePrefix:            "/registry/resourceslices/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.ResourceSlice, resourcev1.ResourceSliceList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Columns:                  strategy.NameAge(),
	}
}
