package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func budget(app string, allowed int32, gone ...string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: selects("app", app)}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed}}
	for _, name := range gone {
		b.Status.DisruptedPods = map[string]metav1.Time{name: {}}
	}
	return b
}

func never(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) }

func TestPreempt(t *testing.T) {
	app := func(name string) func(*corev1.Pod) { return labeled("app", name) }
	cpu := func(n int) func(*corev1.Pod) { return requests("cpu", fmt.Sprint(n)) }
	zone := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selects("app", "web")}
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	z := func(v string) func(*corev1.Node) { return label("zone", v) }
	for _, test := range []struct {
		name      string
		nodes     []*corev1.Node
		on        map[string][]*corev1.Pod
		pod       *corev1.Pod
		nominated string
		budgets   []*policyv1.PodDisruptionBudget
		want      string // "node: victims", or why not
	}{
		{name: "the less urgent leaves", on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(1))}}, pod: makePod("p", cpu(1), priority(5)), want: "a: x"},
		{name: "equals do not", on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(5))}}, pod: makePod("p", cpu(1), priority(5)),
			want: "0/1 nodes are available: 1 No preemption victims found for incoming pod."},
		{name: "never", on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(1))}}, pod: makePod("p", cpu(1), priority(5), never), want: "not eligible due to preemptionPolicy=Never."},
		{name: "no more than need be, the most urgent stay", on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(2), priority(3)), makePod("y", cpu(1), priority(1)), makePod("z", cpu(1), priority(2))}},
			pod: makePod("p", cpu(1), priority(5)), want: "a: y"},
		{name: "not where it is in vain", on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(1))}}, pod: makePod("p", cpu(9), priority(5)),
			want: "0/1 nodes are available: 1 No preemption victims found for incoming pod."},
		{name: "not where the node itself refuses", nodes: []*corev1.Node{makeNode("a", cordon)}, on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(1))}}, pod: makePod("p", cpu(1), priority(5)),
			want: "0/1 nodes are available: 1 Preemption is not helpful for scheduling."},
		{name: "the node where no budget breaks", nodes: []*corev1.Node{makeNode("a"), makeNode("b")}, budgets: []*policyv1.PodDisruptionBudget{budget("web", 0)},
			on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(1), app("web"))}, "b": {makePod("y", cpu(4), priority(4), app("db"))}}, pod: makePod("p", cpu(1), priority(5)), want: "b: y"},
		{name: "on a node the protected stay", budgets: []*policyv1.PodDisruptionBudget{budget("web", 0)},
			on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(2), priority(1), app("web")), makePod("y", cpu(2), priority(4))}}, pod: makePod("p", cpu(2), priority(5)), want: "a: y"},
		{name: "a budget allows one", nodes: []*corev1.Node{makeNode("a"), makeNode("b")}, budgets: []*policyv1.PodDisruptionBudget{budget("web", 1)},
			on:  map[string][]*corev1.Pod{"a": {makePod("x", cpu(2), priority(1), app("web")), makePod("y", cpu(2), priority(1), app("web"))}, "b": {makePod("v", cpu(4), priority(2))}},
			pod: makePod("p", cpu(4), priority(5)), want: "b: v"},
		{name: "what a budget has counted does not count again", nodes: []*corev1.Node{makeNode("a"), makeNode("b")}, budgets: []*policyv1.PodDisruptionBudget{budget("web", 0, "x")},
			on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(1), app("web"))}, "b": {makePod("v", cpu(4), priority(2))}}, pod: makePod("p", cpu(4), priority(5)), want: "a: x"},
		{name: "budgets do not hold where there is no other way", budgets: []*policyv1.PodDisruptionBudget{budget("web", 0)},
			on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(1), app("web"))}}, pod: makePod("p", cpu(4), priority(5)), want: "a: x"},
		{name: "the least urgent victim", nodes: []*corev1.Node{makeNode("a"), makeNode("b")},
			on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(3))}, "b": {makePod("y", cpu(2), priority(2)), makePod("z", cpu(2), priority(2))}}, pod: makePod("p", cpu(4), priority(5)), want: "b: y z"},
		{name: "fewer victims", nodes: []*corev1.Node{makeNode("a"), makeNode("b")},
			on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(4), priority(2))}, "b": {makePod("y", cpu(2), priority(2)), makePod("z", cpu(2), priority(2))}}, pod: makePod("p", cpu(4), priority(5)), want: "a: x"},
		{name: "the younger victim", nodes: []*corev1.Node{makeNode("a"), makeNode("b")},
			on: map[string][]*corev1.Pod{"a": {makePod("age-9", cpu(4), priority(2))}, "b": {makePod("age-1", cpu(4), priority(2))}}, pod: makePod("p", cpu(4), priority(5)), want: "b: age-1"},
		{name: "anti-affinity gives way", nodes: []*corev1.Node{makeNode("a", z("1"))},
			on: map[string][]*corev1.Pod{"a": {makePod("x", priority(1), app("web")), makePod("y", priority(1))}}, pod: makePod("p", priority(5), apart(zone)), want: "a: x"},
		{name: "the anti-affinity of those there", nodes: []*corev1.Node{makeNode("a", z("1"))},
			on: map[string][]*corev1.Pod{"a": {makePod("x", priority(1), apart(zone)), makePod("y", priority(1))}}, pod: makePod("p", priority(5), app("web")), want: "a: x"},
		{name: "not when the reason is in another node of the domain", nodes: []*corev1.Node{makeNode("a", z("1")), makeNode("b", z("1"), cordon)},
			on: map[string][]*corev1.Pod{"a": {makePod("y", priority(1))}, "b": {makePod("x", priority(1), app("web"))}}, pod: makePod("p", priority(5), apart(zone)),
			want: "0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."},
		{name: "affinity is not cured by eviction", nodes: []*corev1.Node{makeNode("a", z("1"))}, on: map[string][]*corev1.Pod{"a": {makePod("y", priority(1))}}, pod: makePod("p", priority(5), near(zone)),
			want: "0/1 nodes are available: 1 Preemption is not helpful for scheduling."},
		{name: "while a victim leaves, no more", on: map[string][]*corev1.Pod{"a": {makePod("x", cpu(2), priority(1), leaving), makePod("y", cpu(2), priority(1))}}, pod: makePod("p", cpu(2), priority(5)), nominated: "a",
			want: "not eligible due to a terminating pod on the nominated node."},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.nodes == nil {
				test.nodes = []*corev1.Node{makeNode("a")}
			}
			c := makeCluster(test.nodes...)
			c.started = func(p *podInfo) time.Time {
				var days int
				fmt.Sscanf(p.key.Name, "age-%d", &days)
				return now.AddDate(0, 0, -days)
			}
			for node, pods := range test.on {
				for _, pod := range pods {
					c.confirm(newPodInfo(pod).onNode(), node)
				}
			}
			for seed := range uint64(4) {
				pl := newPlacement(c, seed)
				p := newPodInfo(test.pod)
				c.nominated.set(p, test.nominated)
				if n := pl.choose(p); n != nil {
					t.Fatalf("it fits on %s", n.name)
				}
				e, why := pl.preempt(p, test.budgets)
				if e != nil {
					var victims []string
					for _, q := range e.victims {
						victims = append(victims, q.key.Name)
					}
					slices.Sort(victims)
					why = e.node.name + ": " + strings.Join(victims, " ")
				}
				if why != test.want {
					t.Fatalf("got  %s\nwant %s", why, test.want)
				}
			}
			checkSums(t, c)
		})
	}
}

// Room that was made for a pod is not taken by one that is no more urgent, but
// by one that is.
func TestNominatedRoomIsKept(t *testing.T) {
	c := makeCluster(makeNode("a"))
	waiting := newPodInfo(makePod("waiting", requests("cpu", "3"), priority(5)))
	c.nominated.set(waiting, "a")
	pl := newPlacement(c, 1)
	for _, test := range []struct {
		pod  *corev1.Pod
		fits bool
	}{
		{makePod("less", requests("cpu", "2"), priority(4)), false},
		{makePod("small", requests("cpu", "1"), priority(4)), true},
		{makePod("equal", requests("cpu", "2"), priority(5)), false},
		{makePod("more", requests("cpu", "2"), priority(6)), true},
	} {
		p := newPodInfo(test.pod)
		if n := pl.choose(p); (n != nil) != test.fits {
			t.Errorf("%s is on %v", test.pod.Name, n)
		}
		if got := pl.diagnose(p).String(); !test.fits && got != "0/1 nodes are available: 1 Insufficient cpu." {
			t.Errorf("%s: %s", test.pod.Name, got)
		}
	}
	if n := pl.choose(waiting); n == nil {
		t.Error("the pod itself does not get its room")
	}
	c.nominated.forget(waiting.key)
	if len(c.nominated.on)+len(c.nominated.node) != 0 {
		t.Error("a trace is left")
	}
}
