package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func horizontalPodAutoscaler() *kinds.Kind {
	split := strategy.Of[autoscalingv2.HorizontalPodAutoscaler]()
	older := strategy.Version[autoscalingv1.HorizontalPodAutoscaler, autoscalingv1.HorizontalPodAutoscalerList](v1, defaultV1)
	older.ToHub, older.FromHub = toHub, fromHub
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v2.Group, Resource: "horizontalpodautoscalers"}, Kind: "HorizontalPodAutoscaler", Singular: "horizontalpodautoscaler",
		ShortNames: []string{"hpa"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix: "/registry/horizontalpodautoscalers/",
		Versions: []kinds.Version{
			strategy.Version[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscalerList](v2, defaultV2),
			older,
		},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validate),
		ValidateUpdate:           strategy.ValidateUpdate(func(h, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList { return validate(h) }),
		Subresources: map[string]*kinds.Subresource{"status": {
			Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateStatus),
		}},
		Columns: columns(),
	}
}
