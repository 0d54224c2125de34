package kubelet

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func asking(cpu, memory string) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}}}}}}
}

func TestFits(t *testing.T) {
	node := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("1Gi")}
	// One that waits for more keeps what it has.
	waiting := asking("8", "64Mi")
	waiting.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "a", AllocatedResources: asking("200m", "64Mi").Spec.Containers[0].Resources.Requests,
		Resources: asking("200m", "64Mi").Spec.Containers[0].Resources.DeepCopy()}}
	waiting.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonInfeasible}}
	for name, c := range map[string]struct {
		others          []*v1.Pod
		pod             *v1.Pod
		reason, message string
	}{
		"room":                 {nil, asking("2", "1Gi"), "", ""},
		"too much CPU":         {nil, asking("2001m", "1"), v1.PodReasonInfeasible, "Node didn't have enough capacity: cpu, requested: 2001, capacity: 2000"},
		"too much memory":      {nil, asking("1", "2Gi"), v1.PodReasonInfeasible, "Node didn't have enough capacity: memory, requested: 2147483648, capacity: 1073741824"},
		"others have it":       {[]*v1.Pod{asking("1500m", "1")}, asking("600m", "1"), v1.PodReasonDeferred, "Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"},
		"never, others or not": {[]*v1.Pod{asking("1500m", "1")}, asking("3", "1"), v1.PodReasonInfeasible, "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"},
		"one waits for more":   {[]*v1.Pod{waiting}, asking("1800m", "1"), "", ""},
	} {
		got := Fits(node, c.others, c.pod)
		switch {
		case got == nil && c.reason == "":
		case got == nil || got.Reason != c.reason || got.Message != c.message:
			t.Errorf("%s: %+v, want %s: %s", name, got, c.reason, c.message)
		}
	}
}
