package scheduling

import (
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func priorityClass() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "priorityclasses"}, Kind: "PriorityClass", Singular: "priorityclass",
		ShortNames:               []string{"pc"},
		StoragePrefix:            "/registry/priorityclasses/",
		Versions:                 []kinds.Version{strategy.Version[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns:                  strategy.NameAge(),
	}
}
