package nodelifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func makeNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now)}}
	for _, f := range change {
		f(n)
	}
	return n
}

// with gives a node conditions: "Ready=True".
func with(conditions ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, c := range conditions {
			t, status, _ := strings.Cut(c, "=")
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(t), Status: corev1.ConditionStatus(status), Reason: "Kubelet", LastHeartbeatTime: metav1.NewTime(now)})
		}
	}
}

// tainted gives a node taints: "key:NoExecute".
func tainted(taints ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, t := range taints {
			key, effect, _ := strings.Cut(t, ":")
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
		}
	}
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func show(taints []corev1.Taint) string {
	var s []string
	for _, t := range taints {
		s = append(s, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	return strings.Join(s, " ")
}

func TestPlanStatus(t *testing.T) {
	describe := func(n *corev1.Node) string {
		if n == nil {
			return ""
		}
		var s []string
		for _, c := range n.Status.Conditions {
			s = append(s, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
		}
		return strings.Join(s, " ")
	}
	for _, test := range []struct {
		name string
		node *corev1.Node
		want string
	}{
		{name: "stopped", node: makeNode("n", with("MemoryPressure=False", "DiskPressure=False", "PIDPressure=False", "Ready=True")),
			want: "MemoryPressure=Unknown/NodeStatusUnknown DiskPressure=Unknown/NodeStatusUnknown PIDPressure=Unknown/NodeStatusUnknown Ready=Unknown/NodeStatusUnknown"},
		{name: "never spoke", node: makeNode("n"),
			want: "Ready=Unknown/NodeStatusNeverUpdated MemoryPressure=Unknown/NodeStatusNeverUpdated DiskPressure=Unknown/NodeStatusNeverUpdated PIDPressure=Unknown/NodeStatusNeverUpdated"},
		{name: "marked already", node: makeNode("n", with("MemoryPressure=Unknown", "DiskPressure=Unknown", "PIDPressure=Unknown", "Ready=Unknown"))},
		{name: "conditions of others stay", node: makeNode("n", with("NetworkUnavailable=False", "MemoryPressure=Unknown", "DiskPressure=Unknown", "PIDPressure=Unknown", "Ready=False")),
			want: "NetworkUnavailable=False/Kubelet MemoryPressure=Unknown/Kubelet DiskPressure=Unknown/Kubelet PIDPressure=Unknown/Kubelet Ready=Unknown/NodeStatusUnknown"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.node.DeepCopy()
			got := planStatus(test.node, now)
			if describe(got) != test.want {
				t.Errorf("got  %s\nwant %s", describe(got), test.want)
			}
			if describe(test.node) != describe(before) {
				t.Error("the shared object was changed")
			}
			if got != nil && planStatus(got, now) != nil {
				t.Error("a second look writes again")
			}
		})
	}
}

func TestTaints(t *testing.T) {
	const unreachable, notReady = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
	for _, test := range []struct {
		name  string
		node  *corev1.Node
		may   evicts
		want  string
		waits bool
	}{
		{name: "well", node: makeNode("n", with("Ready=True")), may: evictNow},
		{name: "no condition yet", node: makeNode("n"), may: evictNow},
		{name: "no condition yet, made with taints", node: makeNode("n", tainted(notReady+":NoSchedule", notReady+":NoExecute", unreachable+":NoExecute")), may: evictNow, want: "not-ready:NoExecute unreachable:NoExecute"},
		{name: "no condition yet, made with a taint, not its turn", node: makeNode("n", tainted(notReady+":NoExecute")), may: evictLater, want: "not-ready:NoExecute"},
		{name: "no condition yet, made with a taint, all nodes are down", node: makeNode("n", tainted(notReady+":NoExecute")), may: evictNever, want: "not-ready:NoExecute"},
		{name: "of another type yet, made with a taint", node: makeNode("n", with("DiskPressure=True"), tainted(notReady+":NoExecute")), may: evictNow, want: "not-ready:NoExecute disk-pressure:NoSchedule"},
		{name: "ready at last, made with taints", node: makeNode("n", with("Ready=True"), tainted(notReady+":NoExecute", unreachable+":NoExecute")), may: evictNow},
		{name: "never spoke, made with a taint", node: makeNode("n", with("Ready=Unknown"), tainted(notReady+":NoExecute")), may: evictLater, want: "unreachable:NoSchedule unreachable:NoExecute"},
		{name: "silent", node: makeNode("n", with("Ready=Unknown")), may: evictNow, want: "unreachable:NoSchedule unreachable:NoExecute"},
		{name: "not ready", node: makeNode("n", with("Ready=False")), may: evictNow, want: "not-ready:NoSchedule not-ready:NoExecute"},
		{name: "silent after not ready", node: makeNode("n", with("Ready=Unknown"), tainted(notReady+":NoSchedule", notReady+":NoExecute")), may: evictLater, want: "unreachable:NoSchedule unreachable:NoExecute"},
		{name: "back", node: makeNode("n", with("Ready=True"), tainted(unreachable+":NoSchedule", "mine:NoExecute", unreachable+":NoExecute")), may: evictNow, want: "mine:NoExecute"},
		{name: "not its turn", node: makeNode("n", with("Ready=Unknown")), may: evictLater, want: "unreachable:NoSchedule", waits: true},
		{name: "it had its turn", node: makeNode("n", with("Ready=Unknown"), tainted(unreachable+":NoExecute")), may: evictLater, want: "unreachable:NoExecute unreachable:NoSchedule"},
		{name: "all nodes are down", node: makeNode("n", with("Ready=Unknown"), tainted(unreachable+":NoSchedule", unreachable+":NoExecute")), may: evictNever, want: "unreachable:NoSchedule", waits: true},
		{name: "pressure", node: makeNode("n", with("Ready=True", "MemoryPressure=True", "DiskPressure=True", "PIDPressure=True", "NetworkUnavailable=True")), may: evictNow,
			want: "memory-pressure:NoSchedule disk-pressure:NoSchedule pid-pressure:NoSchedule network-unavailable:NoSchedule"},
		{name: "pressure gone", node: makeNode("n", with("Ready=True", "MemoryPressure=False"), tainted("node.kubernetes.io/memory-pressure:NoSchedule", "a:NoSchedule")), may: evictNow, want: "a:NoSchedule"},
		{name: "cordoned", node: makeNode("n", with("Ready=True"), cordoned), may: evictNow, want: "unschedulable:NoSchedule"},
		{name: "uncordoned", node: makeNode("n", with("Ready=True"), tainted("node.kubernetes.io/unschedulable:NoSchedule")), may: evictNow},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, waits := taints(test.node, test.may, now)
			if show(got) != test.want || waits != test.waits {
				t.Errorf("got  %s, waits %v\nwant %s, waits %v", show(got), waits, test.want, test.waits)
			}
			test.node.Spec.Taints = got
			if again, _ := taints(test.node, test.may, now.Add(time.Hour)); !sameTaints(got, again) {
				t.Errorf("a second look makes %s", show(again))
			}
		})
	}
}

func TestTurn(t *testing.T) {
	const never = -1
	for _, test := range []struct {
		name    string
		z       zone
		allDown bool
		last    time.Duration // ago; never
		want    evicts
		after   time.Duration
	}{
		{name: "the first", z: zone{10, 1}, last: never, want: evictNow},
		{name: "the second too soon", z: zone{10, 2}, last: 3 * time.Second, want: evictLater, after: 7 * time.Second},
		{name: "the second in time", z: zone{10, 2}, last: 10 * time.Second, want: evictNow},
		{name: "two of three", z: zone{3, 2}, last: never, want: evictNow},
		{name: "most of a small zone", z: zone{10, 6}, last: never, want: evictLater},
		{name: "half of a small zone", z: zone{10, 5}, last: never, want: evictNow},
		{name: "most of a large zone", z: zone{100, 60}, last: 40 * time.Second, want: evictLater, after: time.Minute},
		{name: "a zone that is down while others are not", z: zone{10, 10}, last: never, want: evictNow},
		{name: "all is down", z: zone{10, 10}, allDown: true, last: never, want: evictNever},
	} {
		t.Run(test.name, func(t *testing.T) {
			var last time.Time
			if test.last != never {
				last = now.Add(-test.last)
			}
			if got, after := turn(test.z, test.allDown, last, now); got != test.want || after != test.after {
				t.Errorf("got %v after %s, want %v after %s", got, after, test.want, test.after)
			}
		})
	}
	zones, down := countZones([]*corev1.Node{makeNode("a", with("Ready=True")), makeNode("b", with("Ready=Unknown")),
		makeNode("c", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "z"} })})
	if down || zones["/"] != (zone{2, 1}) || zones["/z"] != (zone{1, 1}) {
		t.Errorf("zones %v, all down %v", zones, down)
	}
}

func TestHeartbeats(t *testing.T) {
	var h heartbeats
	lease := func(at time.Duration) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(now.Add(at - time.Hour)) // the node's clock is behind
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	expect := func(what string, node *corev1.Node, l *coordinationv1.Lease, at, want time.Duration) {
		t.Helper()
		if _, due := h.note(node.Name, node, l, now.Add(at)); !due.Equal(now.Add(want)) {
			t.Errorf("%s: due %s, want %s", what, due.Sub(now), want)
		}
	}
	sec := time.Second
	n := makeNode("n", with("Ready=True"))
	expect("first seen", n, nil, 0, 40*sec)
	expect("nothing new", n, nil, 5*sec, 40*sec)
	expect("lease", n, lease(0), 10*sec, 50*sec)
	expect("the same lease", n, lease(0), 20*sec, 50*sec)
	expect("lease again", n, lease(10*sec), 30*sec, 70*sec)
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(now.Add(sec))
	expect("status", n, lease(10*sec), 35*sec, 75*sec)
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	expect("our own mark is no heartbeat", n, lease(10*sec), 80*sec, 75*sec)

	m := makeNode("m")
	expect("never spoke", m, nil, 10*sec, 60*sec)
	m = planStatus(m, now.Add(60*sec))
	expect("marked as never", m, nil, 70*sec, 60*sec)
	expect("speaks", makeNode("m", with("Ready=True")), nil, 80*sec, 120*sec)

	noTime := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}
	if at := h.taintedAt("n", noTime, now); !at.Equal(now) {
		t.Errorf("tainted at %s", at)
	}
	if at := h.taintedAt("n", noTime, now.Add(sec)); !at.Equal(now) {
		t.Errorf("tainted again at %s", at)
	}
	h.untaint(makeNode("n"))
	if at := h.taintedAt("n", noTime, now.Add(sec)); !at.Equal(now.Add(sec)) {
		t.Errorf("tainted anew at %s", at)
	}
}

func TestPlanPod(t *testing.T) {
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
		for _, f := range change {
			f(p)
		}
		return p
	}
	tolerate := func(key string, seconds ...int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			tol := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
			if len(seconds) > 0 {
				tol.TolerationSeconds = &seconds[0]
			}
			p.Spec.Tolerations = append(p.Spec.Tolerations, tol)
		}
	}
	marked := func(p *corev1.Pod) { p.Status = *notReady(p, now) }
	told := func(p *corev1.Pod) { p.Status = *disrupted(p, now) }
	deleted := func(p *corev1.Pod) { at := metav1.NewTime(now); p.DeletionTimestamp = &at }
	done := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	silent := makeNode("n", with("Ready=Unknown"))
	given := makeNode("n", with("Ready=Unknown"), tainted("a:NoExecute", "b:NoSchedule"))
	two := makeNode("n", with("Ready=True"), tainted("a:NoExecute", "b:NoExecute"))
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		node *corev1.Node
		at   time.Duration
		want string
	}{
		{name: "node well", pod: pod(), node: makeNode("n", with("Ready=True")), want: "nothing"},
		{name: "node says that it is not ready", pod: pod(), node: makeNode("n", with("Ready=False")), want: "nothing"},
		{name: "node silent", pod: pod(), node: silent, want: "marked the pod not ready"},
		{name: "marked", pod: pod(marked), node: silent, want: "nothing"},
		{name: "not tolerated", pod: pod(marked), node: given, want: "marked the pod as disrupted by taint a"},
		{name: "told", pod: pod(marked, told), node: given, want: "evict for a"},
		{name: "tolerated", pod: pod(marked, tolerate("a")), node: given, want: "nothing"},
		{name: "tolerated for a time", pod: pod(marked, tolerate("a", 300)), node: given, at: 10 * time.Second, want: "wait 4m50s for a"},
		{name: "time is over", pod: pod(marked, tolerate("a", 300), told), node: given, at: 300 * time.Second, want: "evict for a"},
		{name: "tolerated for less than no time", pod: pod(marked, tolerate("a", -5), told), node: given, want: "evict for a"},
		{name: "the shortest counts", pod: pod(tolerate("a", 300), tolerate("b", 20)), node: two, want: "wait 20s for b"},
		{name: "one not tolerated", pod: pod(told, tolerate("a", 300)), node: two, want: "evict for b"},
		{name: "being deleted", pod: pod(marked, deleted), node: given, want: "nothing"},
		{name: "ended", pod: pod(done), node: given, want: "nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := planPod(test.pod, test.node, func(corev1.Taint) time.Time { return now }, now.Add(test.at))
			say := "nothing"
			switch {
			case got.status != nil:
				say = "marked the pod " + got.mark
			case got.evict:
				say = "evict for " + got.taint
			case got.wait > 0:
				say = fmt.Sprintf("wait %s for %s", got.wait, got.taint)
			}
			if say != test.want {
				t.Errorf("got %q, want %q", say, test.want)
			}
		})
	}
	p := pod(told)
	if i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }); i < 0 || p.Status.Conditions[i].Reason != "DeletionByTaintManager" {
		t.Errorf("conditions %+v", p.Status.Conditions)
	}
}
