package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func labeled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }
}

func in(namespace string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = namespace } }

func selects(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func near(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func apart(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func spread(change ...func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	c := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selects("app", "web")}
	for _, f := range change {
		f(&c)
	}
	return func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c) }
}

// Nodes a and b are in zone 1, c is in zone 2, d has no zone.
func zones() *cluster {
	return makeCluster(makeNode("a", label("zone", "1")), makeNode("b", label("zone", "1")), makeNode("c", label("zone", "2")), makeNode("d"))
}

func TestRulesAboutOtherPods(t *testing.T) {
	web := labeled("app", "web")
	zone := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selects("app", "web")}
	host := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: selects("app", "web")}
	elsewhere, team := zone, zone
	elsewhere.Namespaces = []string{"other"}
	team.NamespaceSelector = selects("team", "x")
	all := func(c *corev1.TopologySpreadConstraint) { c.MinDomains = new(int32(3)) }
	byHost := func(c *corev1.TopologySpreadConstraint) { c.TopologyKey = "kubernetes.io/hostname" }
	ignore := func(c *corev1.TopologySpreadConstraint) {
		c.NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
	}
	inZone1 := selectNodes(map[string]string{"zone": "1"})
	for _, test := range []struct {
		name string
		on   map[string][]*corev1.Pod
		pod  *corev1.Pod
		want string // the nodes that fit
		why  string // when none does
	}{
		{name: "no rules", pod: makePod("p"), want: "abcd"},
		{name: "near, none there", pod: makePod("p", near(zone)), why: "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."},
		{name: "near, the first of its kind", pod: makePod("p", near(zone), web), want: "abc"},
		{name: "near", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", near(zone)), want: "ab"},
		{name: "near, in another namespace", on: map[string][]*corev1.Pod{"a": {makePod("x", web, in("other"))}}, pod: makePod("p", near(zone)), why: "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."},
		{name: "near, another namespace named", on: map[string][]*corev1.Pod{"a": {makePod("x", web, in("other"))}}, pod: makePod("p", near(elsewhere)), want: "ab"},
		{name: "near, a namespace selected", on: map[string][]*corev1.Pod{"c": {makePod("x", web, in("ns-x"))}}, pod: makePod("p", near(team)), want: "c"},
		{name: "near, both terms", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}, "c": {makePod("y", web)}}, pod: makePod("p", near(zone, host)), want: "ac"},
		{name: "apart", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", apart(zone)), want: "cd"},
		{name: "apart by host", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", apart(host)), want: "bcd"},
		{name: "apart from all", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}, "c": {makePod("y", web)}, "d": {makePod("z", web)}, "b": {makePod("w", web)}}, pod: makePod("p", apart(host)),
			why: "0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules."},
		{name: "others want to be apart", on: map[string][]*corev1.Pod{"a": {makePod("x", apart(zone))}, "c": {makePod("y", apart(host))}}, pod: makePod("p", web), want: "d"},
		{name: "others do not mind", on: map[string][]*corev1.Pod{"a": {makePod("x", apart(zone))}}, pod: makePod("p"), want: "abcd"},
		{name: "spread, even", pod: makePod("p", spread(), web), want: "abc"},
		{name: "spread, one ahead", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", spread(), web), want: "c"},
		{name: "spread, does not count itself", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", spread()), want: "abc"},
		{name: "spread, terminating do not count", on: map[string][]*corev1.Pod{"a": {makePod("x", web, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}}, pod: makePod("p", spread(), web), want: "abc"},
		{name: "spread, too few domains", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}, "c": {makePod("y", web)}}, pod: makePod("p", spread(all), web),
			why: "0/4 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label), 3 node(s) didn't match pod topology spread constraints."},
		{name: "spread, only nodes that the pod may use count", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", spread(), web, inZone1), want: "ab"},
		{name: "spread, all nodes count", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", spread(ignore), web, inZone1),
			why: "0/4 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't match pod topology spread constraints."},
		{name: "spread over zones and hosts", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}, "c": {makePod("y", web)}}, pod: makePod("p", spread(), spread(byHost), web), want: "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := zones()
			c.groups.namespaceLabels = func(name string) labels.Set {
				return map[string]labels.Set{"ns-x": {"team": "x"}}[name]
			}
			for node, pods := range test.on {
				for _, pod := range pods {
					c.confirm(newPodInfo(pod).onNode(), node)
				}
			}
			p := newPodInfo(test.pod)
			d := c.domainsFor(p)
			got := ""
			for _, name := range []string{"a", "b", "c", "d"} {
				if n := c.nodes[name]; fits(p, n) && d.refuses(n) == "" {
					got += name
				}
			}
			if got != test.want {
				t.Errorf("fits on %q, want %q", got, test.want)
			}
			pl := newPlacement(c, 1)
			if n := pl.choose(p); (n != nil) != (test.want != "") {
				t.Errorf("chose %v", n)
			}
			if test.why != "" {
				if why := pl.diagnose(p).String(); why != test.why {
					t.Errorf("got  %s\nwant %s", why, test.why)
				}
			}
		})
	}
}

// A group of pods placed one after the other keeps its rules at every step.
func TestPlacedByRules(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 12 {
		nodes = append(nodes, makeNode(fmt.Sprint("n", i), label("zone", fmt.Sprint(i%3))))
	}
	c := makeCluster(nodes...)
	pl := newPlacement(c, 3)
	host := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: selects("app", "web")}
	perZone, perHost := map[string]int{}, map[string]int{}
	for i := range 12 {
		p := newPodInfo(makePod(fmt.Sprint("p", i), labeled("app", "web"), apart(host), spread()))
		n := pl.choose(p)
		if n == nil {
			t.Fatalf("pod %d: %s", i, pl.diagnose(p))
		}
		c.assume(p, n)
		perZone[n.node.Labels["zone"]]++
		perHost[n.name]++
		for z := range 3 {
			if skew := perZone[fmt.Sprint(z)] - i/3; skew < 0 || skew > 1 {
				t.Fatalf("after pod %d: %v", i, perZone)
			}
		}
	}
	if len(perHost) != 12 {
		t.Errorf("on %d hosts", len(perHost))
	}
	if n := pl.choose(newPodInfo(makePod("one-more", labeled("app", "web"), apart(host)))); n != nil {
		t.Errorf("a thirteenth is on %s", n.name)
	}
	if n := pl.choose(newPodInfo(makePod("another", labeled("app", "web")))); n != nil {
		t.Errorf("a pod without rules is with those that want to be alone, on %s", n.name)
	}
}

// Preferences decide between nodes that are equal otherwise, and are outdone
// by need.
func TestPreferencesAboutOtherPods(t *testing.T) {
	web := labeled("app", "web")
	prefer := func(sign int, key string) func(*corev1.Pod) {
		terms := []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selects("app", "web")}}}
		return func(p *corev1.Pod) {
			if p.Spec.Affinity = (&corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}); sign < 0 {
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
			}
		}
	}
	anyway := func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway }
	const host = "kubernetes.io/hostname"
	for _, test := range []struct {
		name string
		on   map[string][]*corev1.Pod
		pod  *corev1.Pod
		want string // one of these nodes
	}{
		{name: "near", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", prefer(1, host)), want: "a"},
		{name: "near by zone", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", prefer(1, "zone")), want: "b"}, // b is as near and has more room
		{name: "apart", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}, "c": {makePod("y", web)}, "d": {makePod("z", web)}}, pod: makePod("p", prefer(-1, host)), want: "b"},
		{name: "apart by zone", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}, "d": {makePod("y", requests("cpu", "3"))}}, pod: makePod("p", prefer(-1, "zone")), want: "c"},
		{name: "spread", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}}, pod: makePod("p", spread(anyway), web), want: "c"},
		{name: "spread, but no room there", on: map[string][]*corev1.Pod{"a": {makePod("x", web)}, "c": {makePod("y", requests("cpu", "4"))}}, pod: makePod("p", spread(anyway), web, requests("cpu", "1")), want: "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := zones()
			for node, pods := range test.on {
				for _, pod := range pods {
					c.confirm(newPodInfo(pod).onNode(), node)
				}
			}
			for seed := range uint64(4) {
				pl := newPlacement(c, seed)
				if n := pl.choose(newPodInfo(test.pod)); n == nil || n.name != test.want {
					t.Errorf("got %v, want %s", n, test.want)
				}
				if pl.domains.strict() {
					t.Error("a preference is taken for a rule")
				}
			}
		})
	}
}
