package scheduling

import (
	corev1 "k8s.io/api/core/v1"
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
		Versions:                 []kinds.Version{strategy.Version[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](v1, defaultPriorityClass)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            strategy.PrepareCreate(func(c *schedulingv1.PriorityClass) { c.Generation = 1 }),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Value", "integer", schedulingv1.PriorityClass{}.SwaggerDoc()["value"], func(o *schedulingv1.PriorityClass) any { return int64(o.Value) }),
			strategy.Column("Global-Default", "boolean", schedulingv1.PriorityClass{}.SwaggerDoc()["globalDefault"], func(o *schedulingv1.PriorityClass) any { return o.GlobalDefault }),
			strategy.Age(),
			strategy.Column("PreemptionPolicy", "string", schedulingv1.PriorityClass{}.SwaggerDoc()["preemptionPolicy"], func(o *schedulingv1.PriorityClass) any {
				if o.PreemptionPolicy == nil {
					return ""
				}
				return string(*o.PreemptionPolicy)
			}),
		},
	}
}

func defaultPriorityClass(c *schedulingv1.PriorityClass) {
	if c.PreemptionPolicy == nil {
		c.PreemptionPolicy = new(corev1.PreemptLowerPriority)
	}
}
