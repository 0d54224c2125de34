package daemonset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newSet(edits ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	s := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "default", UID: "set", Generation: 1},
		Spec:       appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType}},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func fence(surge, unavailable string) func(*appsv1.DaemonSet) {
	return func(s *appsv1.DaemonSet) {
		a, b := intstr.Parse(surge), intstr.Parse(unavailable)
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: &a, MaxUnavailable: &b}
	}
}
func onDelete(s *appsv1.DaemonSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }
func selecting(s *appsv1.DaemonSet) {
	s.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
}

func node(name string, edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, edit := range edits {
		edit(n)
	}
	return n
}
func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

// pod is one that is ready on a node, of the revision in force.
func pod(name, node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "new"},
		},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))},
		}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func old(p *corev1.Pod)     { p.Labels[appsv1.ControllerRevisionHashLabelKey] = "old" }
func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }
func failed(p *corev1.Pod)  { p.Status.Phase = corev1.PodFailed }
func younger(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now) }
func planned(p *corev1.Pod) { p.Spec.Affinity, p.Spec.NodeName = pin(nil, p.Spec.NodeName), "" }

func in(s *appsv1.DaemonSet, nodes []*corev1.Node, pods ...*corev1.Pod) world {
	return world{set: s, nodes: nodes, pods: pods, hash: "new", now: now, memo: &memory{}}
}

func tell(s step) string {
	var parts []string
	for _, p := range s.remove {
		parts = append(parts, "remove "+p.Name)
	}
	for _, n := range s.create {
		parts = append(parts, "create on "+n)
	}
	return strings.Join(parts, ", ")
}

func TestPlan(t *testing.T) {
	three := []*corev1.Node{node("n1"), node("n2"), node("n3")}
	one := three[:1]
	paused := in(newSet(), one, pod("a", "n1", failed))
	paused.memo.noteFailure("n1", now.Add(-time.Second/2))
	rows := []struct {
		name  string
		world world
		want  string
	}{
		{"each node gets one", in(newSet(), three, pod("a", "n2")), "create on n1, create on n3"},
		{"one that is not bound yet counts", in(newSet(), one, pod("a", "n1", planned)), ""},
		{"one that is bound for a node that is gone", in(newSet(), one, pod("a", "n1"), pod("b", "gone", planned)), "remove b"},
		{"one on a node that is gone is podgc's", in(newSet(), one, pod("a", "n1"), pod("b", "gone")), ""},
		{"a node that is not meant", in(newSet(selecting), one, pod("a", "n1")), "remove a"},
		{"a node that takes no new pods", in(newSet(), []*corev1.Node{node("n1", tainted("x", corev1.TaintEffectNoSchedule))}, pod("a", "n1")), ""},
		{"nor gets one", in(newSet(), []*corev1.Node{node("n1", tainted("x", corev1.TaintEffectNoSchedule))}), ""},
		{"a node that drives pods out", in(newSet(), []*corev1.Node{node("n1", tainted("x", corev1.TaintEffectNoExecute))}, pod("a", "n1")), "remove a"},
		{"a node that is not ready", in(newSet(), []*corev1.Node{node("n1", tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute))}), "create on n1"},
		{"the oldest stays", in(newSet(), one, pod("a", "n1", younger), pod("b", "n1")), "remove a"},
		{"one that failed", in(newSet(), one, pod("a", "n1", failed)), "remove a"},
		{"one that failed again soon", paused, ""},
		{"an update, one by one", in(newSet(), three, pod("a", "n1", old), pod("b", "n2", old), pod("c", "n3", old)), "remove a"},
		{"an update waits", in(newSet(), three, pod("a", "n1", unready), pod("b", "n2", old), pod("c", "n3", old)), ""},
		{"while one is on its way out", in(newSet(), three, pod("a", "n1", leaving), pod("b", "n2", old), pod("c", "n3", old)), ""},
		{"a broken pod goes in any case", in(newSet(), three, pod("a", "n1", unready), pod("b", "n2", old), pod("c", "n3", old, unready)), "remove c"},
		{"half may be unavailable, rounded up", in(newSet(fence("0", "50%")), three, pod("a", "n1", old), pod("b", "n2", old), pod("c", "n3", old)), "remove a, remove b"},
		{"OnDelete", in(newSet(onDelete), one, pod("a", "n1", old)), ""},
		{"a surge", in(newSet(fence("1", "0")), three, pod("a", "n1", old), pod("b", "n2", old), pod("c", "n3", old)), "create on n1"},
		{"a surge that is not up yet", in(newSet(fence("1", "0")), three, pod("a", "n1", old), pod("a2", "n1", unready), pod("b", "n2", old), pod("c", "n3")), ""},
		{"a surge that is up", in(newSet(fence("1", "0")), one, pod("a", "n1", old), pod("a2", "n1")), "remove a"},
		{"a surge past a broken pod", in(newSet(fence("1", "0")), one, pod("a", "n1", old, unready)), "create on n1"},
	}
	for _, row := range rows {
		if got := tell(plan(row.world)); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	if s := plan(paused); s.after != time.Second/2 {
		t.Errorf("after a failure it looks again in %v, want 500ms", s.after)
	}
}

func TestStatus(t *testing.T) {
	nodes := []*corev1.Node{node("n1"), node("n2"), node("n3"), node("n4"), node("n5", tainted("x", corev1.TaintEffectNoSchedule))}
	w := in(newSet(), nodes, pod("a", "n1"), pod("b", "n2", old), pod("c", "n3", unready), pod("d", "n5"))
	want := appsv1.DaemonSetStatus{
		CurrentNumberScheduled: 3, DesiredNumberScheduled: 4, NumberMisscheduled: 1, NumberReady: 2, NumberAvailable: 2,
		NumberUnavailable: 2, UpdatedNumberScheduled: 2, ObservedGeneration: 1,
	}
	got := plan(w).status
	if got == nil || fmt.Sprint(*got) != fmt.Sprint(want) {
		t.Errorf("status is %+v, want %+v", got, want)
	}
	w.set.Status = *got
	if again := plan(w).status; again != nil {
		t.Errorf("it is written again: %+v", again)
	}
	w.set.Spec.MinReadySeconds = 90
	if s := plan(w); s.status.NumberAvailable != 0 || s.after != 30*time.Second {
		t.Errorf("%d are available, looks again after %v", s.status.NumberAvailable, s.after)
	}
}

func TestPods(t *testing.T) {
	s := newSet()
	s.Spec.Template.Spec.HostNetwork = true
	s.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(30))}}
	w := in(s, nil)
	pods := w.newPods([]string{"n1", "n2"})
	p := pods[0]
	if nodeOf(p) != "n1" || revisionOf(p) != "new" || p.Name == pods[1].Name || p.GenerateName != podbatch.Prefix("agent", "-") {
		t.Errorf("pod is %+v", p)
	}
	if len(p.Spec.Tolerations) != 7 || p.Spec.Tolerations[0].TolerationSeconds != nil {
		t.Errorf("tolerations are %+v", p.Spec.Tolerations)
	}
	if w.newPods([]string{"n1"})[0].Name != p.Name {
		t.Error("asked again the name is another")
	}
	w.pods, w.nodes = []*corev1.Pod{pod("x", "n1", leaving)}, []*corev1.Node{node("n1")}
	w.remember()
	next := w.newPods([]string{"n1"})[0].Name
	if next == p.Name {
		t.Error("the next pod has the name of the last")
	}
	w.pods = nil
	w.remember()
	if gone := w.newPods([]string{"n1"})[0].Name; gone != next {
		t.Errorf("once the last is gone the next is %s, not %s", gone, next)
	}
	w.nodes = nil
	if w.remember(); w.memo.nodes.Len() != 0 {
		t.Error("a node that is gone is remembered")
	}
}

func TestPauses(t *testing.T) {
	for times, want := range map[int]time.Duration{0: 0, 1: time.Second, 3: 4 * time.Second, 50: lastPause} {
		if got := pauseAfter(times); got != want {
			t.Errorf("after %d failures %v, want %v", times, got, want)
		}
	}
}
