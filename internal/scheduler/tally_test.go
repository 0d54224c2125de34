package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// count is a tally counted anew, by a look at every pod.
func (c *cluster) count(t *tally, held func(*podTerms) []term) map[string]int64 {
	counts := map[string]int64{}
	for _, at := range c.pods {
		if at.node.node == nil {
			continue
		}
		value, ok := at.node.node.Labels[t.topology.key]
		if !ok {
			continue
		}
		if t.holders {
			if at.info.terms == nil {
				continue
			}
			for _, term := range held(at.info.terms) {
				if term.id == t.terms[0].id {
					counts[value]++
				}
			}
			continue
		}
		if !(t.living && at.info.leaving) && t.matches(at.info.key.Namespace, at.info.labels, c.groups.namespaceLabels) {
			counts[value]++
		}
	}
	return counts
}

// countOn is what a tally of the living counts on a node, by a look at its pods.
func (c *cluster) countOn(t *tally, n *nodeInfo) (count int64) {
	if _, ok := n.node.Labels[t.topology.key]; !ok {
		return 0
	}
	for _, p := range n.pods {
		if !p.leaving && t.matches(p.key.Namespace, p.labels, c.groups.namespaceLabels) {
			count++
		}
	}
	return count
}

// byValue is what a tally counts, by the value of the topology key. A count
// that no value stands for has an empty one.
func (t *tally) byValue() map[string]int64 {
	counts := map[string]int64{}
	names := map[int32]string{}
	for value, domain := range t.topology.domains {
		names[domain] = value
	}
	for domain, n := range t.counts {
		if n != 0 {
			counts[names[int32(domain)]] += n
		}
	}
	return counts
}

// byNode is which value a topology says each node has.
func (t *topology) byNode(c *cluster) map[string]string {
	values := map[string]string{}
	for value, domain := range t.domains {
		for _, n := range c.list {
			if t.of[n.index] == domain {
				values[n.name] += value
			}
		}
	}
	return values
}

func valuesOf(c *cluster, key string) map[string]string {
	values := map[string]string{}
	for _, n := range c.list {
		if value, ok := n.node.Labels[key]; ok {
			values[n.name] = value
		}
	}
	return values
}

// Whatever happens to pods and nodes, a tally is what a look at every pod
// would count.
func TestTalliesFollow(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := newCluster()
		c.groups.namespaceLabels = func(name string) labels.Set { return labels.Set{"name": name} }
		about := func() corev1.PodAffinityTerm {
			out := corev1.PodAffinityTerm{TopologyKey: []string{"zone", "kubernetes.io/hostname"}[r.IntN(2)], LabelSelector: selects("app", fmt.Sprint(r.IntN(3)))}
			switch r.IntN(4) {
			case 0:
				out.NamespaceSelector = selects("name", "other")
			case 1:
				out.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
			}
			return out
		}
		random := func() *podInfo {
			pod := makePod(fmt.Sprint("p", r.IntN(30)), labeled("app", fmt.Sprint(r.IntN(3))), in([]string{"default", "other"}[r.IntN(2)]))
			switch r.IntN(4) {
			case 0:
				apart(about())(pod)
			case 1:
				near(about(), about())(pod)
			case 2:
				spread(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = selects("app", fmt.Sprint(r.IntN(3))) })(pod)
			}
			if r.IntN(5) == 0 {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			return newPodInfo(pod)
		}
		for step := range 400 {
			node := fmt.Sprint("n", r.IntN(6))
			switch r.IntN(8) {
			case 0:
				change := label("zone", fmt.Sprint(r.IntN(3)))
				if r.IntN(4) == 0 {
					change = func(*corev1.Node) {}
				}
				c.setNode(makeNode(node, change))
			case 1:
				c.removeNode(node)
			case 2, 3, 4:
				c.confirm(random().onNode(), node)
			case 5:
				c.forget(random().key)
			case 6:
				c.domainsFor(random())
			case 7:
				if r.IntN(10) == 0 {
					c.groups.forgetUnused(c.groups.now - uint64(r.IntN(5)))
					c.groups.namespaceChanged()
				}
			}
			for _, table := range []struct {
				tallies
				held func(*podTerms) []term
			}{
				{c.groups.about, nil},
				{c.groups.anti, func(t *podTerms) []term { return t.antiAffinity }},
				{c.groups.near, func(t *podTerms) []term { return t.affinity }},
			} {
				for id, tally := range table.byID {
					want, total := c.count(tally, table.held), int64(0)
					least := int64(-1)
					for value, n := range want {
						total += n
						if got := tally.byValue(); got[value] != n {
							t.Fatalf("seed %d, step %d, %q: %v, want %v", seed, step, id, got, want)
						}
						if least < 0 || n < least {
							least = n
						}
					}
					if got := tally.byValue(); len(got) != len(want) || tally.busy != len(want) || tally.total != total {
						t.Fatalf("seed %d, step %d, %q: %v (%d in %d), want %v (%d)", seed, step, id, got, tally.total, tally.busy, want, total)
					}
					if tally.living {
						for _, n := range c.list {
							if got, want := tally.on(n), c.countOn(tally, n); got != want {
								t.Fatalf("seed %d, step %d, %q: %d on %s, want %d", seed, step, id, got, n.name, want)
							}
						}
					}
					if tally.living && least > 0 && tally.least(len(want)) != least {
						t.Fatalf("seed %d, step %d: the least is %d, want %d", seed, step, tally.least(len(want)), least)
					}
					if tally.least(len(want)+1) != 0 {
						t.Fatalf("seed %d, step %d: a domain without pods does not count", seed, step)
					}
				}
			}
			for key, topology := range c.topologies {
				nodes := 0
				for _, n := range c.list {
					if _, ok := n.node.Labels[key]; ok {
						nodes++
					}
				}
				if topology.nodes != nodes {
					t.Fatalf("seed %d, step %d: %d nodes have %s, want %d", seed, step, topology.nodes, key, nodes)
				}
				if got, want := topology.byNode(c), valuesOf(c, key); !maps.Equal(got, want) {
					t.Fatalf("seed %d, step %d: by %s the nodes are in %v, want %v", seed, step, key, got, want)
				}
			}
		}
	}
}

// An attempt asks about groups of pods, not about pods: with ten times as many
// in the cluster it costs the same.
func TestAttemptsCostWhatChanged(t *testing.T) {
	const attempts = 20
	looks := func(pods int) (first, later int) {
		c := newCluster()
		asked := 0
		c.groups.namespaceLabels = func(string) labels.Set { asked++; return labels.Set{"team": "x"} }
		for i := range 50 {
			c.setNode(makeNode(fmt.Sprint("n", i), label("zone", fmt.Sprint(i%3)), allocatable("pods", "1000")))
		}
		for i := range pods {
			c.confirm(newPodInfo(makePod(fmt.Sprint("old", i), labeled("app", fmt.Sprint(i%5)), in("elsewhere"))).onNode(), fmt.Sprint("n", i%50))
		}
		// A namespace selector is asked once for each look at pods.
		term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: selects("team", "x")}
		for i := range attempts {
			p := newPodInfo(makePod(fmt.Sprint("new", i), near(term), labeled("app", "new")))
			n := newPlacement(c, 1).choose(p)
			if n == nil {
				t.Fatal("no node")
			}
			c.assume(p, n)
			c.confirm(p.onNode(), n.name)
			if i == 0 {
				first, asked = asked, 0
			}
		}
		return first, asked
	}
	fewFirst, few := looks(100)
	manyFirst, many := looks(1000)
	if fewFirst != manyFirst || few != many {
		t.Errorf("with 100 pods %d looks, then %d; with 1,000 %d, then %d", fewFirst, few, manyFirst, many)
	}
	if few > 10*attempts {
		t.Errorf("%d looks for %d attempts", few, attempts)
	}
}

// A change is looked at once for each shape of waiting pods.
func TestWakingCostsShapes(t *testing.T) {
	looks := func(pods int) int {
		asked := 0
		of, err := newProfile(Profile{})
		if err != nil {
			t.Fatal(err)
		}
		q := newQueue()
		for i := range pods {
			q.add(newPodInfoOf(makePod(fmt.Sprint("p", i), requests("cpu", "64"), labeled("app", fmt.Sprint(i%4))), of), now)
		}
		for p := q.pop(); p != nil; p = q.pop() {
			q.park(p, refused{ruled: true}, now)
		}
		q.wakeRuled(func(*podInfo) bool { asked++; return false })
		return asked
	}
	if few, many := looks(40), looks(400); few != 4 || many != 4 {
		t.Errorf("%d looks for 40 pods of 4 shapes, %d for 400", few, many)
	}
}

func TestHints(t *testing.T) {
	web, db := labeled("app", "web"), labeled("app", "db")
	zone := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selects("app", "web")}
	for _, test := range []struct {
		name       string
		waits      *corev1.Pod
		came, gone bool
		pod        *corev1.Pod
	}{
		{name: "near such a pod", waits: makePod("p", near(zone)), pod: makePod("x", web), came: true},
		{name: "near such a pod, as it is", waits: makePod("p", web, near(zone)), pod: makePod("x", web), came: true, gone: true},
		{name: "near another", waits: makePod("p", near(zone)), pod: makePod("x", db)},
		{name: "apart from such a pod", waits: makePod("p", apart(zone)), pod: makePod("x", web), gone: true},
		{name: "apart from another", waits: makePod("p", apart(zone)), pod: makePod("x", db)},
		{name: "one that wants to be apart", waits: makePod("p", web), pod: makePod("x", apart(zone)), gone: true},
		{name: "one that wants to be apart from others", waits: makePod("p", db), pod: makePod("x", apart(zone))},
		{name: "spread over such", waits: makePod("p", spread()), pod: makePod("x", web), came: true, gone: true},
		{name: "spread over others", waits: makePod("p", spread()), pod: makePod("x", db)},
		{name: "another namespace", waits: makePod("p", near(zone), spread()), pod: makePod("x", web, in("other"))},
		{name: "no rules", waits: makePod("p"), pod: makePod("x", web)},
	} {
		for gone, want := range map[bool]bool{false: test.came, true: test.gone} {
			if got := (event{newPodInfo(test.pod), gone}).helps(newPodInfo(test.waits), newGroups()); got != want {
				t.Errorf("%s: gone %t helps %t", test.name, gone, got)
			}
		}
	}
}
