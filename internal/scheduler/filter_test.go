package scheduler

import (
	"math/rand/v2"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestFilters(t *testing.T) {
	web := ports(corev1.ContainerPort{HostPort: 80})
	local := ports(corev1.ContainerPort{HostPort: 80, HostIP: "127.0.0.1"})
	other := ports(corev1.ContainerPort{HostPort: 80, HostIP: "10.0.0.1"})
	udp := ports(corev1.ContainerPort{HostPort: 80, Protocol: corev1.ProtocolUDP})
	always := corev1.ContainerRestartPolicyAlways
	zone := func(op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: op, Values: values}}}
	}
	field := func(name string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}
	}
	for _, test := range []struct {
		name string
		node *corev1.Node
		on   []*corev1.Pod // there already
		pod  *corev1.Pod
		want string // "" fits
	}{
		{name: "no requests", node: makeNode("n"), pod: makePod("p")},
		{name: "exactly full", node: makeNode("n"), on: []*corev1.Pod{makePod("a", requests("cpu", "3"))}, pod: makePod("p", requests("cpu", "1"))},
		{name: "one millicore too much", node: makeNode("n"), on: []*corev1.Pod{makePod("a", requests("cpu", "3001m"))}, pod: makePod("p", requests("cpu", "1")),
			want: "0/1 nodes are available: 1 Insufficient cpu."},
		{name: "nothing asked on an overcommitted node", node: makeNode("n"), on: []*corev1.Pod{makePod("a", requests("cpu", "5"))}, pod: makePod("p")},
		{name: "two resources count both", node: makeNode("n"), pod: makePod("p", requests("cpu", "5", "memory", "9Gi")),
			want: "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."},
		{name: "ephemeral storage", node: makeNode("n"), pod: makePod("p", requests("ephemeral-storage", "101Gi")),
			want: "0/1 nodes are available: 1 Insufficient ephemeral-storage."},
		{name: "extended resource missing", node: makeNode("n"), pod: makePod("p", requests("example.com/gpu", "1")),
			want: "0/1 nodes are available: 1 Insufficient example.com/gpu."},
		{name: "extended resource", node: makeNode("n", allocatable("example.com/gpu", "2")), on: []*corev1.Pod{makePod("a", requests("example.com/gpu", "1"))}, pod: makePod("p", requests("example.com/gpu", "1"))},
		{name: "pod count", node: makeNode("n", allocatable("pods", "1")), on: []*corev1.Pod{makePod("a")}, pod: makePod("p"),
			want: "0/1 nodes are available: 1 Too many pods."},
		{name: "init container larger than the sum", node: makeNode("n"), pod: makePod("p", requests("cpu", "1"), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "5")}}}
		}), want: "0/1 nodes are available: 1 Insufficient cpu."},
		{name: "sidecar adds to the sum", node: makeNode("n"), pod: makePod("p", requests("cpu", "3"), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: resources("cpu", "2")}}}
		}), want: "0/1 nodes are available: 1 Insufficient cpu."},
		{name: "overhead", node: makeNode("n"), pod: makePod("p", requests("cpu", "4"), func(p *corev1.Pod) { p.Spec.Overhead = resources("cpu", "1m") }),
			want: "0/1 nodes are available: 1 Insufficient cpu."},
		{name: "pod-level resources", node: makeNode("n"), pod: makePod("p", func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: resources("cpu", "5")}
		}), want: "0/1 nodes are available: 1 Insufficient cpu."},

		{name: "cordoned", node: makeNode("n", cordon), pod: makePod("p"), want: "0/1 nodes are available: 1 node(s) were unschedulable."},
		{name: "cordoned, tolerated", node: makeNode("n", cordon), pod: makePod("p", tolerate(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}))},
		{name: "taint", node: makeNode("n", taint("k", "v", corev1.TaintEffectNoSchedule)), pod: makePod("p"),
			want: "0/1 nodes are available: 1 node(s) had untolerated taint {k: v}."},
		{name: "taint tolerated", node: makeNode("n", taint("k", "v", corev1.TaintEffectNoExecute)), pod: makePod("p", tolerate(corev1.Toleration{Key: "k", Value: "v"}))},
		{name: "toleration of another effect", node: makeNode("n", taint("k", "v", corev1.TaintEffectNoExecute)), pod: makePod("p", tolerate(corev1.Toleration{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule})),
			want: "0/1 nodes are available: 1 node(s) had untolerated taint {k: v}."},
		{name: "soft taint does not filter", node: makeNode("n", taint("k", "v", corev1.TaintEffectPreferNoSchedule)), pod: makePod("p")},

		{name: "selector", node: makeNode("n", label("zone", "a")), pod: makePod("p", selectNodes(map[string]string{"zone": "a"}))},
		{name: "selector misses", node: makeNode("n"), pod: makePod("p", selectNodes(map[string]string{"zone": "a"})),
			want: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
		{name: "affinity terms are alternatives", node: makeNode("n", label("zone", "b")), pod: makePod("p", requireNodes(zone(corev1.NodeSelectorOpIn, "a"), zone(corev1.NodeSelectorOpIn, "b")))},
		{name: "affinity misses", node: makeNode("n", label("zone", "b")), pod: makePod("p", requireNodes(zone(corev1.NodeSelectorOpNotIn, "b"))),
			want: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
		{name: "no term matches nothing", node: makeNode("n"), pod: makePod("p", requireNodes()),
			want: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
		{name: "by name", node: makeNode("n"), pod: makePod("p", requireNodes(field("n")))},
		{name: "by another name", node: makeNode("n"), pod: makePod("p", requireNodes(field("m"))),
			want: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},

		{name: "host port taken", node: makeNode("n"), on: []*corev1.Pod{makePod("a", web)}, pod: makePod("p", web),
			want: "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."},
		{name: "host port of one address and all", node: makeNode("n"), on: []*corev1.Pod{makePod("a", local)}, pod: makePod("p", web),
			want: "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."},
		{name: "host ports of two addresses", node: makeNode("n"), on: []*corev1.Pod{makePod("a", local)}, pod: makePod("p", other)},
		{name: "host ports of two protocols", node: makeNode("n"), on: []*corev1.Pod{makePod("a", web)}, pod: makePod("p", udp)},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := makeCluster(test.node)
			for _, pod := range test.on {
				c.confirm(newPodInfo(pod).onNode(), test.node.Name)
			}
			pl := &placement{cluster: c, rand: rand.New(rand.NewPCG(1, 0))}
			p := newPodInfo(test.pod)
			got := ""
			if pl.choose(p) == nil {
				got = pl.diagnose(p).String()
			}
			if got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			checkSums(t, c)
		})
	}
}

func TestDiagnosisCountsNodes(t *testing.T) {
	c := makeCluster(
		makeNode("a"), makeNode("b", taint("k", "v", corev1.TaintEffectNoSchedule)), makeNode("c", taint("k", "v", corev1.TaintEffectNoSchedule)),
		makeNode("d", cordon), makeNode("e", taint("k", "", corev1.TaintEffectNoExecute)))
	pl := &placement{cluster: c, rand: rand.New(rand.NewPCG(1, 0))}
	p := newPodInfo(makePod("p", requests("cpu", "16")))
	if n := pl.choose(p); n != nil {
		t.Fatalf("placed on %s", n.name)
	}
	want := "0/5 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {k: }, 1 node(s) were unschedulable, 2 node(s) had untolerated taint {k: v}."
	if got := pl.diagnose(p).String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := (&placement{cluster: newCluster()}).diagnose(p).String(); got != "no nodes available to schedule pods" {
		t.Errorf("without nodes: %q", got)
	}
}

// The short cut for plain pods must come to what the library does.
func TestPlainRequests(t *testing.T) {
	for i, pod := range []*corev1.Pod{
		makePod("a"),
		makePod("b", requests("cpu", "100m", "memory", "64Mi", "example.com/gpu", "2")),
		makePod("c", requests("memory", "1Gi"), func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: resources("cpu", "2", "ephemeral-storage", "1Gi")}}, corev1.Container{})
		}),
	} {
		if !plain(pod) {
			t.Fatalf("pod %d is not plain", i)
		}
		got, cpu, memory := podRequests(pod)
		pod.Spec.Overhead = resources() // takes the long way
		want, wantCPU, wantMemory := podRequests(pod)
		if plain(pod) || !reflect.DeepEqual(got, want) || cpu != wantCPU || memory != wantMemory {
			t.Errorf("pod %d: got %+v %d %d, want %+v %d %d", i, got, cpu, memory, want, wantCPU, wantMemory)
		}
	}
}
