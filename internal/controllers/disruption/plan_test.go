package disruption

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func budget(least, most string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 2}}
	if least != "" {
		v := intstr.Parse(least)
		b.Spec.MinAvailable = &v
	}
	if most != "" {
		v := intstr.Parse(most)
		b.Spec.MaxUnavailable = &v
	}
	return b
}

// pods are that many, of which some are ready.
func pods(n, ready int) (pods []*corev1.Pod) {
	for i := range n {
		status := corev1.ConditionFalse
		if i < ready {
			status = corev1.ConditionTrue
		}
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
		})
	}
	return pods
}

func in(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, claimed int) world {
	return world{budget: b, pods: pods, now: now, scale: func([]*corev1.Pod) (int, []string, error) { return claimed, nil, nil }}
}

func TestAllowed(t *testing.T) {
	rows := []struct {
		least, most              string
		there, ready, claimed    int
		expected, desired, allow int32
	}{
		{"2", "", 3, 3, 0, 3, 2, 1},
		{"2", "", 3, 2, 0, 3, 2, 0},
		{"2", "", 3, 1, 0, 3, 2, 0},
		{"2", "", 0, 0, 0, 0, 2, 0},
		{"50%", "", 3, 3, 3, 3, 2, 1},
		{"100%", "", 3, 3, 3, 3, 3, 0},
		{"", "1", 3, 3, 4, 4, 3, 0},
		{"", "1", 4, 4, 4, 4, 3, 1},
		{"", "30%", 10, 10, 10, 10, 7, 3},
		{"", "1%", 10, 10, 10, 10, 9, 1},
		{"", "100%", 2, 2, 2, 2, 0, 2},
		{"0", "", 0, 0, 0, 0, 0, 0},
	}
	for _, row := range rows {
		st := plan(in(budget(row.least, row.most), pods(row.there, row.ready), row.claimed)).status
		if st.ExpectedPods != row.expected || st.DesiredHealthy != row.desired || st.DisruptionsAllowed != row.allow || st.CurrentHealthy != int32(row.ready) || st.ObservedGeneration != 2 {
			t.Errorf("least %q, most %q of %d: %+v", row.least, row.most, row.there, st)
		}
		want := policyv1.InsufficientPodsReason
		if row.allow > 0 {
			want = policyv1.SufficientPodsReason
		}
		if c := st.Conditions[0]; c.Reason != want || (c.Status == metav1.ConditionTrue) != (row.allow > 0) {
			t.Errorf("condition is %+v", c)
		}
	}
}

func TestDisruptedPods(t *testing.T) {
	b := budget("1", "")
	all := pods(4, 4)
	all[1].DeletionTimestamp = &metav1.Time{Time: now}
	b.Status.DisruptedPods = map[string]metav1.Time{
		"p0": metav1.NewTime(now.Add(-time.Minute)), "p1": metav1.NewTime(now), "p2": metav1.NewTime(now.Add(-3 * time.Minute)), "gone": metav1.NewTime(now),
	}
	s := plan(in(b, all, 0))
	if len(s.status.DisruptedPods) != 1 || len(s.stayed) != 1 || s.stayed[0] != "p2" {
		t.Errorf("about to go are %v, %v have stayed", s.status.DisruptedPods, s.stayed)
	}
	if s.status.CurrentHealthy != 2 || s.status.DisruptionsAllowed != 1 || s.after <= time.Minute-time.Second {
		t.Errorf("status is %+v, looks again after %v", s.status, s.after)
	}
}

func TestFailsSafe(t *testing.T) {
	b := budget("", "1")
	b.Status.DisruptionsAllowed = 5
	w := in(b, pods(3, 3), 0)
	w.scale = func([]*corev1.Pod) (int, []string, error) { return 0, nil, errors.New("who knows") }
	s := plan(w)
	if s.err == nil || s.status.DisruptionsAllowed != 0 || s.status.Conditions[0].Reason != policyv1.SyncFailedReason {
		t.Errorf("status is %+v", s.status)
	}
	b.Status = *s.status
	if again := plan(w); again.status != nil {
		t.Errorf("it is written again: %+v", again.status)
	}
}
