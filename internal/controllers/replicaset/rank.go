package replicaset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leastWorth picks n pods to delete, in the order that
// https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#scaling-a-replicaset
// documents. Ties are broken by uid, so that two copies of the loop pick the
// same.
func (w *world) leastWorth(live []*corev1.Pod, n int) []*corev1.Pod {
	if n >= len(live) {
		return live
	}
	usage := w.usage()
	worth := make([]rank, len(live))
	for i, pod := range live {
		worth[i] = w.rank(pod, usage)
	}
	slices.SortFunc(worth, compare)
	picked := make([]*corev1.Pod, n)
	for i := range picked {
		picked[i] = worth[i].pod
	}
	return picked
}

// rank is what a pod is worth, most significant first; lower goes first.
type rank struct {
	asked    int // 0: its deletion was asked for before, and the answer lost
	assigned int // to a node
	phase    int // pending, unknown, running
	ready    int
	cost     int // the deletion-cost annotation
	alone    int // minus the related pods on its node
	readyFor int // power of two of the time it has been ready
	restarts int // minus the most restarts of a container
	age      int // power of two of its age
	pod      *corev1.Pod
}

func compare(a, b rank) int {
	return cmp.Or(
		a.asked-b.asked, a.assigned-b.assigned, a.phase-b.phase, a.ready-b.ready,
		cmp.Compare(a.cost, b.cost), a.alone-b.alone, a.readyFor-b.readyFor,
		a.restarts-b.restarts, a.age-b.age,
		cmp.Compare(a.pod.UID, b.pod.UID),
	)
}

func (w *world) rank(pod *corev1.Pod, usage map[string]int) rank {
	r := rank{pod: pod, asked: 1, phase: phaseWorth(pod.Status.Phase), alone: -usage[pod.Spec.NodeName]}
	if _, asked := w.memo.doomed[pod.UID]; asked {
		r.asked = 0
	}
	if pod.Spec.NodeName != "" {
		r.assigned = 1
	}
	if c := readyCondition(pod); c != nil && c.Status == corev1.ConditionTrue {
		r.ready = 1
		r.readyFor = magnitude(w.now, c.LastTransitionTime)
	}
	if cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32); err == nil {
		r.cost = int(cost)
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for _, s := range statuses {
			r.restarts = min(r.restarts, -int(s.RestartCount))
		}
	}
	r.age = magnitude(w.now, pod.CreationTimestamp)
	return r
}

func phaseWorth(phase corev1.PodPhase) int {
	switch phase {
	case corev1.PodRunning:
		return 2
	case corev1.PodUnknown:
		return 1
	}
	return 0
}

// magnitude puts times into classes that double, so that among pods of about
// the same age chance decides and not the clock; -1 for no time at all.
func magnitude(now time.Time, since metav1.Time) int {
	if since.IsZero() {
		return -1
	}
	d := now.Sub(since.Time)
	if d <= 0 {
		return 0
	}
	return int(math.Log2(float64(d)))
}
