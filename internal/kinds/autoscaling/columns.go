package autoscaling

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

type scaler = *autoscalingv2.HorizontalPodAutoscaler

func columns() []kinds.Column {
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return []kinds.Column{
		strategy.Name(),
		strategy.Column("Reference", "string", spec["scaleTargetRef"], func(h scaler) any {
			return h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name
		}),
		strategy.Column("Targets", "string", spec["metrics"], func(h scaler) any { return targets(h) }),
		strategy.Column("MinPods", "string", spec["minReplicas"], func(h scaler) any {
			if h.Spec.MinReplicas == nil {
				return "<unset>"
			}
			return fmt.Sprint(*h.Spec.MinReplicas)
		}),
		strategy.Column("MaxPods", "integer", spec["maxReplicas"], func(h scaler) any { return int64(h.Spec.MaxReplicas) }),
		strategy.Column("Replicas", "integer", status["currentReplicas"], func(h scaler) any { return int64(h.Status.CurrentReplicas) }),
		strategy.Age(),
	}
}

// shownTargets is how many metrics fit into a cell.
const shownTargets = 2

// targets shows for each metric where it is and where it should be.
func targets(h scaler) string {
	if len(h.Spec.Metrics) == 0 {
		return "<none>"
	}
	var list []string
	for i := range h.Spec.Metrics {
		if i == shownTargets {
			return fmt.Sprintf("%s + %d more...", strings.Join(list, ", "), len(h.Spec.Metrics)-shownTargets)
		}
		var now *autoscalingv2.MetricStatus
		if i < len(h.Status.CurrentMetrics) {
			now = &h.Status.CurrentMetrics[i]
		}
		list = append(list, metric(&h.Spec.Metrics[i], now))
	}
	return strings.Join(list, ", ")
}

func metric(m *autoscalingv2.MetricSpec, now *autoscalingv2.MetricStatus) string {
	var target *autoscalingv2.MetricTarget
	var value *autoscalingv2.MetricValueStatus
	name := ""
	switch {
	case m.Resource != nil:
		target, name = &m.Resource.Target, string(m.Resource.Name)+": "
		if now != nil && now.Resource != nil {
			value = &now.Resource.Current
		}
	case m.ContainerResource != nil:
		target, name = &m.ContainerResource.Target, string(m.ContainerResource.Name)+": "
		if now != nil && now.ContainerResource != nil {
			value = &now.ContainerResource.Current
		}
	case m.Pods != nil:
		target = &m.Pods.Target
		if now != nil && now.Pods != nil {
			value = &now.Pods.Current
		}
	case m.Object != nil:
		target = &m.Object.Target
		if now != nil && now.Object != nil {
			value = &now.Object.Current
		}
	case m.External != nil:
		target = &m.External.Target
		if now != nil && now.External != nil {
			value = &now.External.Current
		}
	default:
		return "<unknown type>"
	}
	return name + against(value, target)
}

func against(now *autoscalingv2.MetricValueStatus, want *autoscalingv2.MetricTarget) string {
	if now == nil {
		now = &autoscalingv2.MetricValueStatus{}
	}
	quantity := func(q *resource.Quantity) string {
		if q == nil {
			return "<unknown>"
		}
		return q.String()
	}
	switch {
	case want.AverageUtilization != nil:
		use := "<unknown>"
		if now.AverageUtilization != nil {
			use = fmt.Sprintf("%d%%", *now.AverageUtilization)
		}
		return fmt.Sprintf("%s/%d%%", use, *want.AverageUtilization)
	case want.AverageValue != nil:
		suffix := ""
		if want.Type == autoscalingv2.AverageValueMetricType {
			suffix = " (avg)"
		}
		return quantity(now.AverageValue) + "/" + want.AverageValue.String() + suffix
	case want.Value != nil:
		return quantity(now.Value) + "/" + want.Value.String()
	}
	return "<unknown>/<auto>"
}
