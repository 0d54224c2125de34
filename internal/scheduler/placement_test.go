package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func newPlacement(c *cluster, seed uint64) *placement {
	return &placement{cluster: c, rand: rand.New(rand.NewPCG(seed, 0)), vetoed: map[string]string{}}
}

func TestScores(t *testing.T) {
	prefer := func(weight int32, key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: weight,
					Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}}}}}
		}
	}
	for _, test := range []struct {
		name  string
		nodes []*corev1.Node
		on    map[string]*corev1.Pod
		pod   *corev1.Pod
		want  string
	}{
		{name: "least allocated", nodes: []*corev1.Node{makeNode("a"), makeNode("b")},
			on: map[string]*corev1.Pod{"a": makePod("x", requests("cpu", "1", "memory", "2Gi"))}, pod: makePod("p", requests("cpu", "1", "memory", "2Gi")), want: "b"},
		{name: "pods without requests spread", nodes: []*corev1.Node{makeNode("a"), makeNode("b")},
			on: map[string]*corev1.Pod{"b": makePod("x")}, pod: makePod("p"), want: "a"},
		{name: "balanced", nodes: []*corev1.Node{makeNode("a"), makeNode("b")},
			on:  map[string]*corev1.Pod{"a": makePod("x", requests("cpu", "2", "memory", "0")), "b": makePod("y", requests("cpu", "0", "memory", "4Gi"))},
			pod: makePod("p", requests("cpu", "1", "memory", "0")), want: "b"},
		{name: "preferred affinity outweighs room", nodes: []*corev1.Node{makeNode("a", label("disk", "ssd")), makeNode("b")},
			on: map[string]*corev1.Pod{"a": makePod("x", requests("cpu", "1", "memory", "2Gi"))}, pod: makePod("p", prefer(10, "disk", "ssd")), want: "a"},
		{name: "soft taint is avoided", nodes: []*corev1.Node{makeNode("a", taint("k", "v", corev1.TaintEffectPreferNoSchedule)), makeNode("b")},
			on: map[string]*corev1.Pod{"b": makePod("x", requests("cpu", "3", "memory", "6Gi"))}, pod: makePod("p"), want: "b"},
		{name: "soft taint tolerated", nodes: []*corev1.Node{makeNode("a", taint("k", "v", corev1.TaintEffectPreferNoSchedule)), makeNode("b")},
			on: map[string]*corev1.Pod{"b": makePod("x", requests("cpu", "3", "memory", "6Gi"))}, pod: makePod("p", tolerate(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})), want: "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := makeCluster(test.nodes...)
			for node, pod := range test.on {
				c.confirm(newPodInfo(pod), node)
			}
			for seed := range uint64(8) { // no tie is broken by luck
				if n := newPlacement(c, seed).choose(newPodInfo(test.pod)); n == nil || n.name != test.want {
					t.Fatalf("seed %d: got %v, want %s", seed, n, test.want)
				}
			}
		})
	}
}

func TestEnough(t *testing.T) {
	for _, test := range []struct{ nodes, want int }{{0, 0}, {3, 3}, {100, 100}, {150, 100}, {1000, 420}, {5000, 500}, {10000, 500}} {
		if got := enough(test.nodes); got != test.want {
			t.Errorf("enough(%d) = %d, want %d", test.nodes, got, test.want)
		}
	}
}

// A node that is out of the sampled share must be found when it is the only
// one that fits.
func TestSearchesAllForTheOnlyNode(t *testing.T) {
	nodes := manyNodes(1000)
	nodes[777].Labels["disk"] = "ssd"
	pl := newPlacement(makeCluster(nodes...), 1)
	for range 3 {
		if n := pl.choose(newPodInfo(makePod("p", selectNodes(map[string]string{"disk": "ssd"})))); n == nil || n.name != "node-777" {
			t.Fatalf("got %v", n)
		}
	}
}

func TestTiesAreBrokenBySeed(t *testing.T) {
	order := func(seed uint64) []string {
		c := makeCluster(manyNodes(20)...)
		pl := newPlacement(c, seed)
		var names []string
		for i := range 20 {
			p := newPodInfo(makePod(fmt.Sprint("p", i), requests("cpu", "1", "memory", "1Gi")))
			n := pl.choose(p)
			c.assume(p, n)
			names = append(names, n.name)
		}
		return names
	}
	a := order(1)
	if !slices.Equal(a, order(1)) {
		t.Error("the same seed gave another order")
	}
	if slices.Equal(a, order(2)) {
		t.Error("another seed gave the same order")
	}
	slices.Sort(a)
	if got := len(slices.Compact(a)); got != 20 {
		t.Errorf("20 equal pods are on %d of 20 equal nodes", got)
	}
}

// Random changes, with the sums checked against a recount.
func TestClusterSums(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := newCluster()
		for range 300 {
			node := fmt.Sprint("n", r.IntN(5))
			pod := makePod(fmt.Sprint("p", r.IntN(12)), requests("cpu", fmt.Sprint(1+r.IntN(3)), "example.com/gpu", fmt.Sprint(r.IntN(2))),
				ports(corev1.ContainerPort{HostPort: int32(80 + r.IntN(2))}))
			switch r.IntN(6) {
			case 0:
				c.setNode(makeNode(node, allocatable("cpu", fmt.Sprint(1+r.IntN(8)))))
			case 1:
				c.removeNode(node)
			case 2, 3:
				c.confirm(newPodInfo(pod), node)
			case 4:
				if n := newPlacement(c, seed).choose(newPodInfo(pod)); n != nil {
					c.assume(newPodInfo(pod), n)
				}
			case 5:
				c.forget(newPodInfo(pod).key)
			}
		}
		checkSums(t, c)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func BenchmarkPlacement(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := makeCluster(manyNodes(nodes)...)
			pl := newPlacement(c, 1)
			q := newQueue()
			b.ReportAllocs()
			for i := range b.N {
				if i%(nodes*50) == 0 {
					b.StopTimer()
					c = makeCluster(manyNodes(nodes)...)
					pl.cluster = c
					b.StartTimer()
				}
				q.add(newPodInfo(makePod(fmt.Sprint("p", i), requests("cpu", "100m", "memory", "64Mi"))), now)
				p := q.pop()
				c.assume(p, pl.choose(p))
				c.confirm(p.onNode(), c.pods[p.key].node.name)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}
