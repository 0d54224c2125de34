package podbatch

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition finds one of a pod's conditions; nil when it has none of that type.
func Condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// ReadyFor is how long a pod has been ready, negative when it is not.
func ReadyFor(pod *corev1.Pod, now time.Time) time.Duration {
	c := Condition(pod, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return -1
	}
	return max(0, now.Sub(c.LastTransitionTime.Time))
}

// LeastWorth sorts pods by what they are worth, the least first: those that
// can be spared without harm come before those that work, and work for long.
// Ties are broken by uid, so that two copies of a loop pick the same.
func (m *Memory) LeastWorth(pods []*corev1.Pod, now time.Time) {
	worth := make([]rank, len(pods))
	for i, pod := range pods {
		worth[i] = m.rank(pod, now)
	}
	slices.SortFunc(worth, compare)
	for i := range worth {
		pods[i] = worth[i].pod
	}
}

// rank is most significant first; lower goes first.
type rank struct {
	asked    int // 0: its deletion was asked for before
	assigned int // to a node
	phase    int // pending, unknown, running
	ready    int
	cost     int // the deletion-cost annotation
	readyFor int
	restarts int // minus the most restarts of a container
	age      int
	pod      *corev1.Pod
}

func compare(a, b rank) int {
	return cmp.Or(
		a.asked-b.asked, a.assigned-b.assigned, a.phase-b.phase, a.ready-b.ready, a.cost-b.cost,
		a.readyFor-b.readyFor, a.restarts-b.restarts, a.age-b.age, cmp.Compare(a.pod.UID, b.pod.UID),
	)
}

func (m *Memory) rank(pod *corev1.Pod, now time.Time) rank {
	r := rank{pod: pod, asked: 1}
	if m.Asked(pod) {
		r.asked = 0
	}
	if pod.Spec.NodeName != "" {
		r.assigned = 1
	}
	switch pod.Status.Phase {
	case corev1.PodUnknown:
		r.phase = 1
	case corev1.PodRunning:
		r.phase = 2
	}
	if c := Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		r.ready, r.readyFor = 1, magnitude(now, c.LastTransitionTime)
	}
	if cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32); err == nil {
		r.cost = int(cost)
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for _, s := range statuses {
			r.restarts = min(r.restarts, -int(s.RestartCount))
		}
	}
	r.age = magnitude(now, pod.CreationTimestamp)
	return r
}

// magnitude puts times into classes that double, so that among pods of about
// the same age chance decides and not the clock; -1 for no time at all.
func magnitude(now time.Time, since metav1.Time) int {
	switch d := now.Sub(since.Time); {
	case since.IsZero():
		return -1
	case d <= 0:
		return 0
	default:
		return int(math.Log2(float64(d)))
	}
}
