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
			got := plan(test.pod, lost{gone: test.gone}, now.Add(test.at))
			if got.remove != test.remove || (got.status != nil) != test.fail || got.wait != test.wait {
				t.Fatalf("got %+v", got)
			}
			if got.status != nil && (got.status.Phase != corev1.PodFailed || got.status.Conditions[0].Reason != "DeletionByPodGC") {
				t.Errorf("status %+v", got.status)
			}
		})
	}
}

// Only pods that are to go are helped to, on a node that is out of service.
func TestOutOfService(t *testing.T) {
	out := lost{outOf: true}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"runs":          {makePod("n", corev1.PodRunning), ""},
		"terminating":   {makePod("n", corev1.PodRunning, deleted(30)), "fail"},
		"marked":        {makePod("n", corev1.PodFailed, deleted(30)), "remove"},
		"ended":         {makePod("n", corev1.PodSucceeded, deleted(30)), "remove"},
		"held for good": {makePod("n", corev1.PodFailed, deleted(0), held), ""},
	} {
		next, got := plan(c.pod, out, now), ""
		switch {
		case next.remove:
			got = "remove"
		case next.status != nil && next.status.Phase == corev1.PodFailed:
			got = "fail"
		}
		if got != c.want || next.absent || next.status != nil && len(next.status.Conditions) > 0 {
			t.Errorf("%s: %q, want %q: %+v", name, got, c.want, next)
		}
	}
	node := &corev1.Node{}
	if outOfService(node) || outOfService(nil) {
		t.Error("a node that nobody says anything of is out of service")
	}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	if !outOfService(node) {
		t.Error("a silent node is not out of service, though somebody says so")
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if outOfService(node) {
		t.Error("a node that is ready is out of service")
	}
}

func TestSurplus(t *testing.T) {
	pod := func(name string, age int, phase corev1.PodPhase, change ...func(*corev1.Pod)) *corev1.Pod {
		p := makePod("n", phase, change...)
		p.Name, p.CreationTimestamp = name, metav1.NewTime(now.Add(-time.Duration(age)*time.Hour))
		return p
	}
	evicted := func(p *corev1.Pod) { p.Status.Reason = "Evicted" }
	pods := []*corev1.Pod{
		pod("new", 1, corev1.PodSucceeded), pod("old", 9, corev1.PodFailed), pod("evicted", 2, corev1.PodFailed, evicted),
		pod("b", 5, corev1.PodSucceeded), pod("a", 5, corev1.PodSucceeded), pod("runs", 20, corev1.PodRunning), pod("going", 20, corev1.PodFailed, deleted(0)),
	}
	for most, want := range map[int]string{5: "", 4: "evicted ", 3: "evicted old ", 2: "evicted old a ", 0: "evicted old a b new "} {
		got := ""
		for _, p := range surplus(pods, most) {
			got += p.Name + " "
		}
		if got != want {
			t.Errorf("at most %d: %q go, want %q", most, got, want)
		}
	}
}
