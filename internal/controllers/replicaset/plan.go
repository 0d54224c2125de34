// Package replicaset is the loop that keeps as many pods alive as a ReplicaSet
// claims. plan.go, rank.go and status.go decide, without I/O; controller.go
// and pods.go read the views, write and come back.
//
//	pods of the view --claim--> owned --count--> too few:  create in batches
//	                                             too many: delete the least worth
//	                                             else:     status
//
// Pods are made in parallel, at most batchLimit at one look. That is more than
// one write a step, but each is independent of the others and the next look
// counts anew, so a crash between any two of them leaves a state that the loop
// converges from as from any other.
//
// Where upstream keeps expectations of events to come, this loop reads its own
// writes: it looks again only when its view shows what it has made, it holds
// as gone what it has deleted until the view agrees, and a creation whose
// answer was lost is tried again under the same name.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/.
package replicaset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// batchLimit bounds the pods made or deleted at one look, so that one large
// ReplicaSet does not keep others waiting.
const batchLimit = 500

// world is what the loop sees of one ReplicaSet.
type world struct {
	rs    *appsv1.ReplicaSet // shared: copied before it is changed
	pods  []*corev1.Pod      // owned, in no order
	now   time.Time
	memo  *memory
	usage func() map[string]int // live pods of related ReplicaSets by node
	// uncounted: the status of this kind does not count terminating pods.
	uncounted bool
}

// memory is what the loop knows of one ReplicaSet that the view may not show
// yet. It is lost in a crash, and nothing depends on it but how many useless
// requests are made.
type memory struct {
	// doomed are pods whose deletion was asked for: true when the server has
	// agreed, false when its answer was lost.
	doomed map[types.UID]bool
	// pending are names of pods whose creation was asked for and not answered.
	pending []string
	// pace is how many pods are created at the same time next.
	pace int
	// salt makes new names when one was taken by a stranger.
	salt uint64
	// failure is why the last batch was not done, nil when it was.
	failure  error
	failing  string    // the reason that goes with failure
	statusAt time.Time // of the last write of the status
}

// step is what is next: pods to create or to delete, else a new status, else
// nothing.
type step struct {
	create int
	remove []*corev1.Pod
	status *appsv1.ReplicaSetStatus
	after  time.Duration // until the next pod becomes available
}

func plan(w world) step {
	live, terminating := w.sort()
	if w.rs.DeletionTimestamp == nil {
		switch missing := int(*w.rs.Spec.Replicas) - len(live); {
		case missing > 0:
			return step{create: min(missing, batchLimit), status: w.status(live, terminating)}
		case missing < 0:
			return step{remove: w.leastWorth(live, min(-missing, batchLimit)), status: w.status(live, terminating)}
		}
	}
	return step{status: w.status(live, terminating), after: w.nextAvailable(live)}
}

// sort tells pods that count from those on their way out. Pods that have ended
// are neither: they stay for people to look at, and are replaced.
func (w *world) sort() (live []*corev1.Pod, terminating int) {
	for _, pod := range w.pods {
		switch {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case pod.DeletionTimestamp != nil || w.memo.doomed[pod.UID]:
			terminating++
		default:
			live = append(live, pod)
		}
	}
	return live, terminating
}

// forget drops from memory what the view shows.
func (m *memory) forget(pods []*corev1.Pod) {
	if len(m.doomed) == 0 {
		return
	}
	running := make(map[types.UID]bool, len(m.doomed))
	for _, pod := range pods {
		if _, ok := m.doomed[pod.UID]; ok && pod.DeletionTimestamp == nil {
			running[pod.UID] = true
		}
	}
	for uid := range m.doomed {
		if !running[uid] {
			delete(m.doomed, uid)
		}
	}
}
