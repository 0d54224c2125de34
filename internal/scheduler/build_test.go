package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// makeNode returns a node of 4 CPUs, 8Gi and 10 pods.
func makeNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status:     corev1.NodeStatus{Allocatable: resources("cpu", "4", "memory", "8Gi", "ephemeral-storage", "100Gi", "pods", "10")},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

// makePod returns a pod with one container that asks for nothing.
func makePod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec:       corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c"}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func requests(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resources(pairs...) }
}

func priority(v int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &v }
}

func ports(ports ...corev1.ContainerPort) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = ports }
}

func tolerate(t corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
}

func selectNodes(labels map[string]string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = labels }
}

func requireNodes(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
}

func taint(key, value string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

func allocatable(pairs ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for name, q := range resources(pairs...) {
			n.Status.Allocatable[name] = q
		}
	}
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func cordon(n *corev1.Node) { n.Spec.Unschedulable = true }

func makeCluster(nodes ...*corev1.Node) *cluster {
	c := newCluster()
	for _, n := range nodes {
		c.setNode(n)
	}
	return c
}

func manyNodes(count int) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = makeNode(fmt.Sprintf("node-%d", i), allocatable("cpu", "32", "memory", "256Gi", "pods", "110"))
	}
	return nodes
}

// checkSums compares the sums of every node with a sum over its pods.
func checkSums(t *testing.T, c *cluster) {
	t.Helper()
	for key, at := range c.pods {
		if at.node.pods[key] != at.info || c.nodes[at.node.name] != at.node {
			t.Errorf("pod %s: the node %s does not know it", key, at.node.name)
		}
	}
	total := 0
	for _, n := range c.nodes {
		var want nodeInfo
		for _, p := range n.pods {
			want.add(p)
		}
		total += len(n.pods)
		if n.requested.milliCPU != want.requested.milliCPU || n.requested.memory != want.requested.memory ||
			len(n.requested.scalar) != len(want.requested.scalar) || len(n.ports) != len(want.ports) ||
			n.scoreCPU != want.scoreCPU || n.scoreMemory != want.scoreMemory {
			t.Errorf("node %s: sums %+v, want %+v", n.name, n.requested, want.requested)
		}
		if (n.node != nil) != (n.index >= 0) || n.index >= 0 && c.list[n.index] != n {
			t.Errorf("node %s: index %d", n.name, n.index)
		}
	}
	if total != len(c.pods) {
		t.Errorf("nodes have %d pods, the index %d", total, len(c.pods))
	}
}
