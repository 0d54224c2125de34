package scheduling_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/scheduling"
)

// licence keeps pods that need a licence on nodes that have one, and the others
// away from them where that is possible.
type licence struct{}

func (licence) Name() string { return "Licence" }

func (licence) Filter(pod *corev1.Pod, node scheduling.Node) string {
	if needs(pod) && !has(node) {
		return "node(s) had no licence"
	}
	return ""
}

func (licence) Score(pod *corev1.Pod, node scheduling.Node) int64 {
	if !needs(pod) && has(node) {
		return 0
	}
	return 100
}

func needs(pod *corev1.Pod) bool { return pod.Annotations["example.com/licence"] != "" }

func has(node scheduling.Node) bool { return node.Object().Labels["example.com/licence"] != "" }

// A scheduler with a plugin of its own, for pods whose spec.schedulerName is
// "licensed".
func Example_plugin() {
	run := func(ctx context.Context, cluster *rest.Config) error {
		return scheduling.Run(ctx, cluster, scheduling.Options{Profiles: []scheduling.Profile{{
			SchedulerName: "licensed",
			Plugins:       []scheduling.Plugin{licence{}},
			Weights:       map[string]int64{"Licence": 5},
		}}})
	}
	_ = run
}

// A whole scheduler that packs pods onto as few nodes as it can.
func Example_scheduler() {
	run := func(ctx context.Context, cluster *rest.Config) error {
		return scheduling.Run(ctx, cluster, scheduling.Options{Profiles: []scheduling.Profile{{
			SchedulerName: "packing",
			Strategy:      "MostAllocated",
			Disabled:      []string{"PodTopologySpread", "NodeResourcesBalancedAllocation"},
		}}})
	}
	_ = run
}
