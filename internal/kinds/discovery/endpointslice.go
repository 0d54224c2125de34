package discovery

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func endpointSlice() *kinds.Kind {
	split := strategy.Counted[discoveryv1.EndpointSlice]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "endpointslices"}, Kind: "EndpointSlice", Singular: "endpointslice",
		Namespaced:               true,
		StoragePrefix:            "/registry/endpointslices/",
		Versions:                 []kinds.Version{strategy.Version[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Columns:                  strategy.NameAge(),
	}
}
