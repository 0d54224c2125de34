package autoscaling

import (
	"encoding/json"
	"fmt"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// autoscaling/v1 knows one metric, the use of CPU in percent. All else that v2
// can say travels in annotations, as upstream has it, so that nothing is lost
// on the way from v2 to v1 and back.
const (
	metricsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	statusesAnnotation   = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation   = "autoscaling.alpha.kubernetes.io/behavior"
)

func fromHub(obj kinds.Object) (kinds.Object, error) {
	in := obj.(*autoscalingv2.HorizontalPodAutoscaler).DeepCopy()
	out := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas, MaxReplicas: in.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration, LastScaleTime: in.Status.LastScaleTime,
			CurrentReplicas: in.Status.CurrentReplicas, DesiredReplicas: in.Status.DesiredReplicas,
		},
	}
	out.SetGroupVersionKind(v1.WithKind("HorizontalPodAutoscaler"))
	// What such an annotation of the hub says is not ours: it would come back
	// as a part of the claim.
	dropAnnotations(&out.ObjectMeta)

	var metrics []autoscalingv1.MetricSpec
	for _, m := range in.Spec.Metrics {
		if use := cpuTarget(m); use != nil && out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = use
			continue
		}
		metrics = append(metrics, specFromHub(m))
	}
	var statuses []autoscalingv1.MetricStatus
	for _, m := range in.Status.CurrentMetrics {
		if use := cpuUse(m); use != nil && out.Status.CurrentCPUUtilizationPercentage == nil {
			out.Status.CurrentCPUUtilizationPercentage = use
			continue
		}
		statuses = append(statuses, statusFromHub(m))
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range in.Status.Conditions {
		conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
			ObservedGeneration: c.ObservedGeneration,
		})
	}
	for _, part := range []struct {
		key   string
		value any
		there bool
	}{
		{metricsAnnotation, metrics, len(metrics) > 0},
		{statusesAnnotation, statuses, len(statuses) > 0},
		{conditionsAnnotation, conditions, len(conditions) > 0},
		{behaviorAnnotation, behaviorFromHub(in.Spec.Behavior), in.Spec.Behavior != nil},
	} {
		if !part.there {
			continue
		}
		text, err := json.Marshal(part.value)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", part.key, err)
		}
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, part.key, string(text))
	}
	return out, nil
}

func toHub(obj kinds.Object) (kinds.Object, error) {
	in := obj.(*autoscalingv1.HorizontalPodAutoscaler).DeepCopy()
	out := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas, MaxReplicas: in.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration, LastScaleTime: in.Status.LastScaleTime,
			CurrentReplicas: in.Status.CurrentReplicas, DesiredReplicas: in.Status.DesiredReplicas,
		},
	}
	out.SetGroupVersionKind(v2.WithKind("HorizontalPodAutoscaler"))

	// Annotations that do not parse are dropped, as upstream drops them: a
	// person may have written anything there.
	var metrics []autoscalingv1.MetricSpec
	if read(in.Annotations, metricsAnnotation, &metrics) {
		for _, m := range metrics {
			out.Spec.Metrics = append(out.Spec.Metrics, specToHub(m))
		}
	}
	if use := in.Spec.TargetCPUUtilizationPercentage; use != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: use},
			},
		})
	}
	var statuses []autoscalingv1.MetricStatus
	if read(in.Annotations, statusesAnnotation, &statuses) {
		for _, m := range statuses {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, statusToHub(m))
		}
	}
	if use := in.Status.CurrentCPUUtilizationPercentage; use != nil {
		out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, autoscalingv2.MetricStatus{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: use},
			},
		})
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if read(in.Annotations, conditionsAnnotation, &conditions) {
		for _, c := range conditions {
			out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
				LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
				ObservedGeneration: c.ObservedGeneration,
			})
		}
	}
	var b behavior
	if read(in.Annotations, behaviorAnnotation, &b) {
		out.Spec.Behavior = behaviorToHub(b)
	}
	dropAnnotations(&out.ObjectMeta)
	return out, nil
}

func read(annotations map[string]string, key string, into any) bool {
	text, ok := annotations[key]
	return ok && json.Unmarshal([]byte(text), into) == nil
}

// dropAnnotations takes ours away. The map was copied with its object.
func dropAnnotations(meta *metav1.ObjectMeta) {
	maps.DeleteFunc(meta.Annotations, func(key, _ string) bool {
		return key == metricsAnnotation || key == statusesAnnotation || key == conditionsAnnotation || key == behaviorAnnotation
	})
	if len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
}

// cpuTarget is the percentage that v1 has a field for; nil for any other metric.
func cpuTarget(m autoscalingv2.MetricSpec) *int32 {
	if m.Type != autoscalingv2.ResourceMetricSourceType || m.Resource == nil || m.Resource.Name != corev1.ResourceCPU {
		return nil
	}
	return m.Resource.Target.AverageUtilization
}

func cpuUse(m autoscalingv2.MetricStatus) *int32 {
	if m.Type != autoscalingv2.ResourceMetricSourceType || m.Resource == nil || m.Resource.Name != corev1.ResourceCPU {
		return nil
	}
	return m.Resource.Current.AverageUtilization
}
