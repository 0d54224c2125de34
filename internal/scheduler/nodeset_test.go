package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is remembered of nodes is what matching them anew says, whatever came,
// went and changed.
func TestNodeSetsFollowNodes(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := makeCluster()
		zone := func() string { return fmt.Sprint("z", r.IntN(3)) }
		var pods []*podInfo
		for i := range 3 {
			pods = append(pods, newPodInfo(makePod(fmt.Sprint("p", i), selectNodes(map[string]string{corev1.LabelTopologyZone: fmt.Sprint("z", i)}))))
		}
		pods = append(pods, newPodInfo(makePod("some", requireNodes(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z0", "z2"}}}}))))
		for step := range 400 {
			name := fmt.Sprint("n", r.IntN(12))
			switch r.IntN(4) {
			case 0:
				c.removeNode(name)
			case 1:
				c.forgetNodeSets(c.groups.now)
			default:
				n := makeNode(name, label(corev1.LabelTopologyZone, zone()))
				n.ObjectMeta.ResourceVersion = fmt.Sprint(step)
				c.setNode(n)
			}
			p := pods[r.IntN(len(pods))]
			c.groups.now++
			if r.IntN(3) > 0 {
				p.selected = c.nodeSetOf(p)
			}
			for _, n := range c.list {
				want, err := p.required.Match(n.node)
				if got := matches(p, n); err != nil || got != want {
					t.Fatalf("seed %d, step %d: %s on %s: %t, want %t (%v)", seed, step, p.key.Name, n.name, got, want, metav1.Object(n.node).GetLabels())
				}
			}
		}
	}
}
