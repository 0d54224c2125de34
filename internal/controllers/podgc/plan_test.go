package podgc

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func makePod(node string, phase corev1.PodPhase, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	for _, f := range change {
		f(p)
	}
	return p
}

func deleted(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		at := metav1.NewTime(now)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	}
}

func held(p *corev1.Pod) { p.Finalizers = []string{"batch.kubernetes.io/job-tracking"} }

func TestPlan(t *testing.T) {
	there, missing := time.Time{}, now
	for _, test := range []struct {
		name   string
		pod    *corev1.Pod
		gone   time.Time
		at     time.Duration
		wait   time.Duration
		fail   bool
		remove bool
	}{
		{name: "on a node", pod: makePod("n", corev1.PodRunning), gone: there},
		{name: "to be placed", pod: makePod("", corev1.PodPending), gone: there},
		{name: "deleted before it was placed", pod: makePod("", corev1.PodPending, deleted(30)), gone: there, remove: true},
		{name: "deleted before it was placed, held", pod: makePod("", corev1.PodPending, deleted(0), held), gone: there},
		{name: "node just gone", pod: makePod("n", corev1.PodRunning), gone: missing, at: 10 * time.Second, wait: 30 * time.Second},
		{name: "node gone", pod: makePod("n", corev1.PodRunning), gone: missing, at: quarantine, fail: true},
		{name: "marked", pod: makePod("n", corev1.PodFailed), gone: missing, at: quarantine, remove: true},
		{name: "ended before", pod: makePod("n", corev1.PodSucceeded), gone: missing, at: quarantine, remove: true},
		{name: "terminating", pod: makePod("n", corev1.PodRunning, deleted(30)), gone: missing, at: quarantine, fail: true},
		{name: "held", pod: makePod("n", corev1.PodFailed, deleted(30), held), gone: missing, at: quarantine, remove: true},
		{name: "held for good", pod: makePod("n", corev1.PodFailed, deleted(0), held), gone: missing, at: quarantine},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := plan(test.pod, test.gone, now.Add(test.at))
			if got.remove != test.remove || (got.status != nil) != test.fail || got.wait != test.wait {
				t.Fatalf("got %+v", got)
			}
			if got.status != nil && (got.status.Phase != corev1.PodFailed || got.status.Conditions[0].Reason != "DeletionByPodGC") {
				t.Errorf("status %+v", got.status)
			}
		})
	}
}
