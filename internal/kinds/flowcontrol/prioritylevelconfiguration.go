package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func priorityLevelConfiguration() *kinds.Kind {
	split := strategy.Counted[flowcontrolv1.PriorityLevelConfiguration]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "prioritylevelconfigurations"}, Kind: "PriorityLevelConfiguration", Singular: "prioritylevelconfiguration",
		StoragePrefix:            "/registry/prioritylevelconfigurations/",
		Versions:                 []kinds.Version{strategy.Version[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1.PriorityLevelConfigurationList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: strategy.NameAge(),
	}
}
