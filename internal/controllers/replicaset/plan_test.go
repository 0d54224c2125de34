package replicaset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func set(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "rs", Generation: 1, ResourceVersion: "7"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		},
	}
}

// pod is a running, ready pod on a node, ready for an hour, changed by edits.
func pod(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"app": "web"},
			CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour)),
		},
		Spec: corev1.PodSpec{NodeName: "node-" + name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
		}}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func unready(p *corev1.Pod)    { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func pending(p *corev1.Pod)    { unready(p); p.Status.Phase = corev1.PodPending }
func unassigned(p *corev1.Pod) { pending(p); p.Spec.NodeName = "" }
func leaving(p *corev1.Pod)    { p.DeletionTimestamp = &metav1.Time{Time: now} }
func failed(p *corev1.Pod)     { p.Status.Phase = corev1.PodFailed }
func cheap(p *corev1.Pod)      { p.Annotations = map[string]string{corev1.PodDeletionCost: "-10"} }
func doubled(p *corev1.Pod)    { p.Spec.NodeName = "crowded" }
func fresh(p *corev1.Pod) {
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Second))
}
func restarted(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}}
}
func young(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute)) }

func in(rs *appsv1.ReplicaSet, pods ...*corev1.Pod) world {
	return world{rs: rs, pods: pods, now: now, memo: &memory{doomed: map[types.UID]bool{}}, usage: func() map[string]int {
		n := map[string]int{}
		for _, p := range pods {
			n[p.Spec.NodeName]++
		}
		return n
	}}
}

func TestCount(t *testing.T) {
	rows := []struct {
		name   string
		world  world
		create int
		remove int
	}{
		{"nothing there", in(set(3)), 3, 0},
		{"right", in(set(2), pod("a"), pod("b")), 0, 0},
		{"ended pods are replaced", in(set(2), pod("a"), pod("b", failed)), 1, 0},
		{"leaving pods are replaced", in(set(2), pod("a"), pod("b", leaving)), 1, 0},
		{"too many", in(set(1), pod("a"), pod("b"), pod("c")), 0, 2},
		{"down to none", in(set(0), pod("a"), pod("b")), 0, 2},
		{"at most a batch", in(set(10_000)), batchLimit, 0},
	}
	for _, row := range rows {
		s := plan(row.world)
		if s.create != row.create || len(s.remove) != row.remove {
			t.Errorf("%s: creates %d and deletes %d, want %d and %d", row.name, s.create, len(s.remove), row.create, row.remove)
		}
	}
	gone := set(3)
	gone.DeletionTimestamp = &metav1.Time{Time: now}
	if s := plan(in(gone)); s.create != 0 {
		t.Error("a ReplicaSet on its way out makes pods")
	}
}

// Each pod goes before the next.
func TestRank(t *testing.T) {
	order := []*corev1.Pod{
		pod("unassigned", unassigned), pod("pending", pending), pod("unready", unready), pod("cheap", cheap),
		pod("doubled", doubled), pod("fresh", fresh), pod("restarted", restarted), pod("young", young),
		pod("a"), pod("b"),
	}
	all := append(slices.Clone(order), pod("unready-neighbour", doubled))
	slices.Reverse(all)
	w := in(set(1), all...)
	picked := w.leastWorth(all, len(all)-1)
	var got, want []string
	for _, p := range picked {
		if p.Name != "unready-neighbour" {
			got = append(got, p.Name)
		}
	}
	for _, p := range order {
		want = append(want, p.Name)
	}
	if want = want[:len(got)]; !slices.Equal(got, want) {
		t.Errorf("they go as %v, want %v", got, want)
	}
}

func TestStatus(t *testing.T) {
	rs := set(4)
	rs.Spec.MinReadySeconds = 10
	other := pod("other")
	other.Labels = map[string]string{"app": "other"}
	w := in(rs, pod("a"), pod("new", fresh), pod("c", unready), other, pod("gone", leaving))
	s := plan(w)
	got := s.status
	if got == nil || got.Replicas != 4 || got.FullyLabeledReplicas != 3 || got.ReadyReplicas != 3 || got.AvailableReplicas != 2 ||
		*got.TerminatingReplicas != 1 || got.ObservedGeneration != 1 {
		t.Errorf("status is %+v", got)
	}
	if s.after != 9*time.Second {
		t.Errorf("looks again after %v, want 9s", s.after)
	}
	rs.Status = *got
	if again := plan(w); again.status != nil {
		t.Errorf("the status is written again: %+v", again.status)
	}
	w.memo.failure, w.memo.failing = errors.New("quota"), failedCreate
	got = plan(w).status
	if got == nil || len(got.Conditions) != 1 || got.Conditions[0].Reason != failedCreate || got.Conditions[0].Message != "quota" {
		t.Errorf("after a failure the status is %+v", got)
	}
	rs.Status = *got
	w.memo.failure = nil
	if got = plan(w).status; got == nil || len(got.Conditions) != 0 {
		t.Errorf("after the failure the status is %+v", got)
	}
}

func TestDoomedPodsAreNotCounted(t *testing.T) {
	a, b := pod("a"), pod("b")
	w := in(set(1), a, b)
	w.memo.doomed[b.UID] = true
	if s := plan(w); s.create != 0 || len(s.remove) != 0 {
		t.Errorf("a pod that is being deleted is counted: %+v", s)
	}
	w.memo.forget([]*corev1.Pod{a, pod("b", leaving)})
	if len(w.memo.doomed) != 0 {
		t.Error("what the view shows is not forgotten")
	}
}

func TestNames(t *testing.T) {
	w := in(set(3), pod("a"), pod("b"))
	one, two := newNamer(w), newNamer(in(set(3), pod("b"), pod("a")))
	seen := map[string]bool{}
	for range 1000 {
		name := one.next()
		if other := two.next(); name != other {
			t.Fatalf("two who see the same draw %s and %s", name, other)
		}
		if !strings.HasPrefix(name, "web-") || len(name) != len("web-")+suffixLength {
			t.Fatalf("name is %q", name)
		}
		seen[name] = true
	}
	if len(seen) < 990 {
		t.Errorf("only %d of 1000 names are distinct", len(seen))
	}
	if three := newNamer(in(set(3), pod("a"))); seen[three.next()] && seen[three.next()] {
		t.Error("names do not depend on the pods that are there")
	}
	long := set(1)
	long.Name = strings.Repeat("x", 80)
	if name := newNamer(in(long)).next(); len(name) != 63 {
		t.Errorf("a name has %d bytes", len(name))
	}
}

func BenchmarkPlan10000(b *testing.B) {
	var pods []*corev1.Pod
	for i := range 10_000 {
		pods = append(pods, pod(fmt.Sprint("p", i)))
	}
	w := in(set(10_000), pods...)
	for b.Loop() {
		plan(w)
	}
}
