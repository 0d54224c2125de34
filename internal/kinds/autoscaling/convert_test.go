package autoscaling

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func hub() *autoscalingv2.HorizontalPodAutoscaler {
	q := resource.MustParse("5")
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{Kind: "HorizontalPodAutoscaler", APIVersion: "autoscaling/v2"},
		ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{"keep": "me"}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "d", APIVersion: "apps/v1"},
			MinReplicas:    new(int32(1)), MaxReplicas: 9,
			Metrics: []autoscalingv2.MetricSpec{
				{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "hits"}, Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: &q}}},
				{Type: "External", External: &autoscalingv2.ExternalMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: "Value", Value: &q}}},
				{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{
					Name: "cpu", Target: autoscalingv2.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))}}},
			},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{
				StabilizationWindowSeconds: new(int32(5)), Policies: []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: 1, PeriodSeconds: 2}}}},
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			CurrentReplicas: 2, DesiredReplicas: 3,
			Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: "AbleToScale", Status: "True", Reason: "R"}},
		},
	}
}

// TestThroughV1: what v1 has no field for comes back from its annotations.
func TestThroughV1(t *testing.T) {
	old, err := fromHub(hub())
	if err != nil {
		t.Fatal(err)
	}
	v1 := old.(*autoscalingv1.HorizontalPodAutoscaler)
	if v1.Spec.TargetCPUUtilizationPercentage == nil || *v1.Spec.TargetCPUUtilizationPercentage != 60 {
		t.Errorf("the use of CPU is %v", v1.Spec.TargetCPUUtilizationPercentage)
	}
	const want = `{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":5,"SelectPolicy":null,"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":2}],"Tolerance":null}}`
	if got := v1.Annotations[behaviorAnnotation]; got != want {
		t.Errorf("behavior is written as\n%s, want\n%s", got, want)
	}
	back, err := toHub(old)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hub(), back); diff != "" {
		t.Errorf("through v1 (-want +got):\n%s", diff)
	}
}

func TestAnnotationsOfPeople(t *testing.T) {
	got, err := toHub(&autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metricsAnnotation: "nonsense"}}})
	if err != nil || len(got.(*autoscalingv2.HorizontalPodAutoscaler).Spec.Metrics) != 0 || len(got.GetAnnotations()) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestTargets(t *testing.T) {
	h := hub()
	h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: "Pods", Pods: &autoscalingv2.PodsMetricStatus{
		Current: autoscalingv2.MetricValueStatus{AverageValue: new(resource.MustParse("3"))}}}}
	if got, want := targets(h), "3/5 (avg), <unknown>/5 + 1 more..."; got != want {
		t.Errorf("targets %q, want %q", got, want)
	}
	h.Spec.Metrics = h.Spec.Metrics[2:]
	h.Status.CurrentMetrics = nil
	if got, want := targets(h), "cpu: <unknown>/60%"; got != want {
		t.Errorf("targets %q, want %q", got, want)
	}
}

func TestDefaults(t *testing.T) {
	h := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{}}}
	defaultV2(h)
	if *h.Spec.MinReplicas != 1 || *h.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 {
		t.Errorf("%+v", h.Spec)
	}
	if up := h.Spec.Behavior.ScaleUp; *up.StabilizationWindowSeconds != 0 || len(up.Policies) != 2 || *up.SelectPolicy != "Max" {
		t.Errorf("up %+v", up)
	}
	if down := h.Spec.Behavior.ScaleDown; down.StabilizationWindowSeconds != nil || len(down.Policies) != 1 {
		t.Errorf("down %+v", down)
	}
}
