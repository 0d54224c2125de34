package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What is remembered of nodes is what asking them anew says, whatever came,
// went and changed, and for every kind of pod.
func TestEquivalencesFollow(t *testing.T) {
	most, err := newProfile(Profile{SchedulerName: "most", Strategy: "MostAllocated", Disabled: []string{taintToleration}})
	if err != nil {
		t.Fatal(err)
	}
	remembered := 0
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := newCluster()
		kind := func() *podInfo {
			pod := makePod(fmt.Sprint("p", r.IntN(40)), requests("cpu", fmt.Sprint(1+r.IntN(2)), "memory", "1Gi"))
			switch r.IntN(8) {
			case 0:
				selectNodes(map[string]string{"zone": fmt.Sprint(r.IntN(2))})(pod)
			case 1:
				tolerate(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})(pod)
			case 2:
				tolerate(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})(pod)
			case 3:
				requests("cpu", "1", "example.com/gpu", "1")(pod)
			case 4:
				ports(corev1.ContainerPort{HostPort: int32(80 + r.IntN(2))})(pod)
			case 5:
				requests()(pod)
			case 6:
				requireNodes(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}})(pod)
			}
			if r.IntN(4) == 0 {
				return newPodInfoOf(pod, most)
			}
			return newPodInfo(pod)
		}
		for step := range 600 {
			name := fmt.Sprint("n", r.IntN(10))
			switch r.IntN(10) {
			case 0:
				c.removeNode(name)
			case 1, 2:
				changes := []func(*corev1.Node){label("zone", fmt.Sprint(r.IntN(2)))}
				switch r.IntN(5) {
				case 0:
					changes = append(changes, cordon)
				case 1:
					changes = append(changes, taint("k", "v", corev1.TaintEffectNoSchedule))
				case 2:
					changes = append(changes, allocatable("cpu", fmt.Sprint(2+r.IntN(6)), "example.com/gpu", "2"))
				case 3:
					changes = append(changes, allocatable("pods", fmt.Sprint(r.IntN(4))))
				}
				c.setNode(makeNode(name, changes...))
			case 3, 4:
				if p := kind(); len(c.list) > 0 {
					c.assume(p, c.list[r.IntN(len(c.list))])
				}
			case 5:
				c.confirm(kind().onNode(), name)
			case 6:
				c.forget(kind().key)
			case 7:
				if r.IntN(8) == 0 {
					c.forgetNodeSets(c.groups.now - uint64(r.IntN(5)))
					c.forgetEquivalences(c.groups.now - uint64(r.IntN(5)))
				}
			}
			p := kind()
			c.groups.now++
			p.selected = c.nodeSetOf(p)
			e := c.equivalenceOf(p)
			for i, n := range c.list {
				if e != nil && e.opinions[i].version == c.versions[i] {
					remembered++
				}
				score, ok := c.ask(e, p, i)
				if want := fits(p, n); ok != want || ok && score != resourceScore(p, n) {
					t.Fatalf("seed %d, step %d: %s on %s: %t %d, want %t %d", seed, step, p.key.Name, n.name, ok, score, want, resourceScore(p, n))
				}
			}
			if len(c.equivalences) > mostEquivalences {
				t.Fatalf("%d kinds of pods are remembered", len(c.equivalences))
			}
		}
	}
	if remembered == 0 {
		t.Error("nothing was remembered")
	}
}

// Whoever asks after a like pod was placed, asks one node.
func TestLikePodsAskWhatChanged(t *testing.T) {
	c := makeCluster(manyNodes(50)...)
	asked := func() (n int) {
		p := newPodInfo(makePod(fmt.Sprint("p", len(c.pods)), requests("cpu", "1")))
		before := map[int]uint64{}
		key := equivalenceKey{profile: p.profile, milliCPU: 1000, scoreCPU: 1000, scoreMemory: defaultMemory}
		if e := c.equivalences[key]; e != nil {
			for i := range e.opinions {
				before[i] = e.opinions[i].version
			}
		}
		c.assume(p, newPlacement(c, 1).choose(p))
		for i, v := range c.equivalences[key].opinions {
			if v.version != before[i] {
				n++
			}
		}
		return n
	}
	for i, want := range []int{0, 50, 1, 1, 1} { // the first of a kind is not remembered
		if got := asked(); got != want {
			t.Errorf("pod %d asked %d nodes, want %d", i, got, want)
		}
	}
}
