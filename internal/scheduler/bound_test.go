package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Pods that ask for a node by its name are matched as the library for node
// affinity matches them, whatever else they ask for.
func TestBoundPodsMatch(t *testing.T) {
	c := makeCluster()
	for i := range 4 {
		c.setNode(makeNode(fmt.Sprint("n", i), label("zone", fmt.Sprint(i%2))))
	}
	bound, matched := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		named := func() corev1.NodeSelectorRequirement {
			op := corev1.NodeSelectorOpIn
			if r.IntN(4) == 0 {
				op = corev1.NodeSelectorOpNotIn
			}
			return corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: op, Values: []string{fmt.Sprint("n", r.IntN(5))}}
		}
		term := func() (out corev1.NodeSelectorTerm) {
			for range 1 + r.IntN(2) {
				out.MatchFields = append(out.MatchFields, named())
			}
			if r.IntN(3) == 0 {
				out.MatchExpressions = []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint(r.IntN(2))}}}
			}
			return out
		}
		terms := []corev1.NodeSelectorTerm{term()}
		if r.IntN(4) == 0 {
			terms = append(terms, term())
		}
		pod := makePod("p", requireNodes(terms...))
		if r.IntN(3) == 0 {
			selectNodes(map[string]string{"zone": fmt.Sprint(r.IntN(2))})(pod)
		}
		p := newPodInfo(pod)
		if p.bound != "" {
			bound++
		}
		want := map[string]bool{}
		for _, n := range c.list {
			ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n.node)
			if err != nil {
				t.Fatal(err)
			}
			if got := matches(p, n); got != ok {
				t.Fatalf("seed %d: %+v with %v on %s: %t, want %t", seed, terms, pod.Spec.NodeSelector, n.name, got, ok)
			}
			if ok {
				want[n.name] = true
				matched++
			}
		}
		if n := newPlacement(c, seed).choose(p); len(want) == 0 && n != nil || len(want) > 0 && (n == nil || !want[n.name]) {
			t.Fatalf("seed %d: %+v is on %v, want one of %v", seed, terms, n, want)
		}
	}
	if bound == 0 || matched == 0 {
		t.Errorf("%d bound, %d matched", bound, matched)
	}
	without, err := newProfile(Profile{Disabled: []string{nodeAffinity}})
	if err != nil {
		t.Fatal(err)
	}
	p := newPodInfoOf(makePod("p", requireNodes(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"gone"}}}})), without)
	if n := newPlacement(c, 1).choose(p); n == nil {
		t.Error("without NodeAffinity no node fits")
	}
}
