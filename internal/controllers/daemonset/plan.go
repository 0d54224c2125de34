// Package daemonset is the loop that keeps one pod on each node that a
// DaemonSet is meant for. plan.go, place.go, rollout.go, status.go and pods.go
// decide, without I/O; controller.go reads the views, writes and comes back.
//
//	nodes x pods --by node--> a node that ought to have one and has none: create
//	                          one that has too many, or ought to have none: delete
//	                          one of an old revision, as the strategy allows: replace
//
// The scheduler places the pods: each has a node affinity that only its node
// matches. Pods are made and deleted in batches: see podbatch.
//
// A look costs in proportion to the nodes. What happens to one node or pod is
// looked at together with what happens soon after, the later the more nodes
// there are.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/.
package daemonset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

// A daemon pod that fails is replaced after a pause that doubles from
// firstPause to lastPause.
const (
	firstPause = time.Second
	lastPause  = 15 * time.Minute
)

// world is what the loop sees of one DaemonSet.
type world struct {
	set   *appsv1.DaemonSet // shared: copied before it is changed
	nodes []*corev1.Node
	pods  []*corev1.Pod // owned, in no order
	hash  string        // of the revision of the template in force
	now   time.Time
	memo  *memory
}

// memory is what the loop knows of one DaemonSet that the views may not show
// yet. It is lost in a crash.
type memory struct {
	pods podbatch.Memory
	// salt makes new names when one was taken by a stranger.
	salt uint64
	// nodes remember the pods that were last seen for them.
	nodes podbatch.Places[string]
	// pauses are after failures, by node.
	pauses map[string]pause
}

type pause struct {
	times int
	since time.Time
}

// step is what is next: pods to delete and nodes to get a pod, and the status
// for the case that there is neither.
type step struct {
	remove []*corev1.Pod
	create []string
	failed []*corev1.Pod // those of remove that are because they have ended
	status *appsv1.DaemonSetStatus
	after  time.Duration // until time alone calls for more; 0: never

	on, wait string // a pod that is not as it ought to be, and why
}

// spot is a node and the set's pods there.
type spot struct {
	name   string
	wanted bool // a pod ought to run there
	stays  bool // one that runs there may stay
	pods   []*corev1.Pod
}

func plan(w world) step {
	spots, lost := w.spots()
	s := step{}
	if w.set.DeletionTimestamp == nil {
		s.remove = lost
		for _, spot := range spots {
			w.manage(spot, &s)
		}
		if len(s.remove) == 0 && len(s.create) == 0 {
			w.roll(spots, &s)
		}
		s.remove = s.remove[:min(len(s.remove), podbatch.Limit)]
		s.create = s.create[:min(len(s.create), podbatch.Limit)]
	}
	s.status = w.status(spots)
	if d := w.nextAvailable(); d > 0 {
		s.look(d)
	}
	w.explain(spots, &s)
	return s
}

// explain says what the set waits for, if it is not up or not up to date.
func (w *world) explain(spots []*spot, s *step) {
	for _, at := range spots {
		for _, pod := range at.pods {
			switch {
			case !at.wanted:
			case w.leaving(pod):
				s.wait = "it is being deleted"
			case !w.available(pod):
				s.wait = "it is not available"
			case !w.isCurrent(pod) && w.set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType:
				s.wait = "it is to be replaced"
			}
			if s.wait != "" {
				s.on = "Pod " + pod.Namespace + "/" + pod.Name
				return
			}
		}
	}
}

// look asks for another look after d, if none is due before.
func (s *step) look(d time.Duration) {
	if s.after == 0 || d < s.after {
		s.after = d
	}
}

// spots puts the pods on their nodes, the oldest pod first. lost are pods for
// nodes that are not there; those that were there already are podgc's.
func (w *world) spots() (spots []*spot, lost []*corev1.Pod) {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range w.pods {
		byNode[nodeOf(pod)] = append(byNode[nodeOf(pod)], pod)
	}
	place := newPlacer(w.set)
	for _, node := range w.nodes {
		at := &spot{name: node.Name, pods: byNode[node.Name]}
		delete(byNode, node.Name)
		at.wanted, at.stays = place.fits(node)
		slices.SortFunc(at.pods, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
		})
		spots = append(spots, at)
	}
	slices.SortFunc(spots, func(a, b *spot) int { return cmp.Compare(a.name, b.name) })
	for _, pods := range byNode {
		for _, pod := range pods {
			if pod.Spec.NodeName == "" && !w.leaving(pod) {
				lost = append(lost, pod)
			}
		}
	}
	return spots, lost
}

func (w *world) leaving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || w.memo.pods.Doomed(pod)
}

// manage sees to it that a spot has one pod, or none.
func (w *world) manage(at *spot, s *step) {
	switch {
	case at.wanted && len(at.pods) == 0:
		s.create = append(s.create, at.name)
		return
	case !at.stays:
		for _, pod := range at.pods {
			if !w.leaving(pod) {
				s.remove = append(s.remove, pod)
			}
		}
		return
	}
	var running []*corev1.Pod
	for _, pod := range at.pods {
		switch {
		case w.leaving(pod):
		case pod.Status.Phase == corev1.PodFailed:
			if rest := w.memo.rest(at.name, w.now); rest > 0 {
				s.look(rest)
				continue
			}
			fallthrough
		case controllers.Ended(pod):
			s.remove, s.failed = append(s.remove, pod), append(s.failed, pod)
		default:
			running = append(running, pod)
		}
	}
	if len(running) < 2 {
		return
	}
	if w.maxSurge(1) == 0 {
		s.remove = append(s.remove, running[1:]...)
		return
	}
	w.pair(running, s)
}

// pair keeps the oldest pod of each revision, and of these the old one only
// until the new one has come up.
func (w *world) pair(running []*corev1.Pod, s *step) {
	var fresh, old *corev1.Pod
	for _, pod := range running {
		switch current := w.isCurrent(pod); {
		case current && fresh == nil:
			fresh = pod
		case !current && old == nil:
			old = pod
		default:
			s.remove = append(s.remove, pod)
		}
	}
	if fresh != nil && old != nil && (!controllers.Ready(old) || w.available(fresh)) {
		s.remove = append(s.remove, old)
	}
}

func (w *world) isCurrent(pod *corev1.Pod) bool { return revisionOf(pod) == w.hash }

func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.ControllerRevisionHashLabelKey] }

func (w *world) minReady() time.Duration {
	return time.Duration(w.set.Spec.MinReadySeconds) * time.Second
}

func (w *world) available(pod *corev1.Pod) bool {
	return podbatch.ReadyFor(pod, w.now) >= w.minReady()
}

// nextAvailable is how long until a ready pod becomes available; 0: none will.
func (w *world) nextAvailable() (next time.Duration) {
	for _, pod := range w.pods {
		if since := podbatch.ReadyFor(pod, w.now); since >= 0 && since < w.minReady() {
			if left := w.minReady() - since; next == 0 || left < next {
				next = left
			}
		}
	}
	return next
}

// rest is how much is left of a node's pause.
func (m *memory) rest(node string, now time.Time) time.Duration {
	p := m.pauses[node]
	return max(0, pauseAfter(p.times)-now.Sub(p.since))
}

// pauses begin when a failed pod is deleted.
func (m *memory) noteFailure(node string, now time.Time) {
	if m.pauses == nil {
		m.pauses = map[string]pause{}
	}
	p := m.pauses[node]
	if now.Sub(p.since) > 2*lastPause {
		p.times = 0
	}
	m.pauses[node] = pause{p.times + 1, now}
}

func pauseAfter(times int) time.Duration {
	if times == 0 {
		return 0
	}
	d := firstPause
	for range times - 1 {
		if d *= 2; d >= lastPause {
			return lastPause
		}
	}
	return d
}
