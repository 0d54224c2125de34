package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func deviceClass() *kinds.Kind {
	split := strategy.Counted[resourcev1.DeviceClass]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "deviceclasses"}, Kind: "DeviceClass", Singular: "deviceclass",
		StoragePrefix:            "/registry/deviceclasses/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.DeviceClass, resourcev1.DeviceClassList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Columns:                  strategy.NameAge(),
	}
}
