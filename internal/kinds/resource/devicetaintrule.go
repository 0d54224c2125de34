package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func deviceTaintRule() *kinds.Kind {
	split := strategy.Counted[resourcev1.DeviceTaintRule]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "devicetaintrules"}, Kind: "DeviceTaintRule", Singular: "devicetaintrule",
		StoragePrefix:            "/registry/devicetaintrules/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.DeviceTaintRule, resourcev1.DeviceTaintRuleList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: strategy.NameAge(),
	}
}
