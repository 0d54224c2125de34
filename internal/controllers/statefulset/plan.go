// Package statefulset is the loop that keeps pods with a name, a place and
// volumes of their own, as a StatefulSet claims. plan.go, update.go,
// status.go and pods.go decide, without I/O; controller.go and claims.go read
// the views, write and come back. One write a step.
//
//	pods --by ordinal--> places from start up, and condemned ones beyond
//	  each place in order:   ended -> delete; missing -> claims, then pod;
//	                         wrong identity -> mend
//	  condemned from the top: claims, then delete
//	  places from the top:    of an old revision -> delete
//
// With OrderedReady each of these waits until all pods before are ready; with
// Parallel none waits. So an ordered set whose template never gets ready stays
// at its first pod even when the template is mended, as upstream documents
// ("forced rollback"); Parallel goes on.
//
// A pod on a silent node keeps its place until it is gone: two of one name
// would be worse than none.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/.
package statefulset

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

// world is what the loop sees of one StatefulSet.
type world struct {
	set  *appsv1.StatefulSet // shared: copied before it is changed
	pods []*corev1.Pod       // owned, in no order
	now  time.Time
	// update is the revision of the template in force, current the one before
	// it, or the same.
	update, current *appsv1.ControllerRevision
	// claim finds a claim of the set's namespace, nil when it is not there.
	claim func(name string) *corev1.PersistentVolumeClaim
}

// step is what is next: at most one write, and the status for the case that
// there is none.
type step struct {
	createClaim *corev1.PersistentVolumeClaim
	updateClaim *corev1.PersistentVolumeClaim
	create      *corev1.Pod
	update      *corev1.Pod // its metadata
	remove      *corev1.Pod
	status      *appsv1.StatefulSetStatus

	on, wait string // what is waited for, when nothing is to be done
	what     string
	after    time.Duration
}

func (s step) acts() bool {
	return s.createClaim != nil || s.updateClaim != nil || s.create != nil || s.update != nil || s.remove != nil
}

// halts tells whether nothing after this step may be done now.
func (s step) halts() bool { return s.acts() || s.wait != "" }

func plan(w world) step {
	places, condemned := w.places()
	st := w.status(places, condemned)
	s := step{}
	if w.set.DeletionTimestamp == nil {
		s = w.act(places, condemned)
	}
	if s.after == 0 {
		s.after = w.nextAvailable(places)
	}
	s.status = st
	return s
}

func (w *world) act(places, condemned []*corev1.Pod) step {
	var held step // what a place waits for; with Parallel the others go on
	for i := range places {
		s := w.fill(places, i)
		if s.acts() || s.wait != "" && !w.parallel() {
			return s
		}
		if held.wait == "" {
			held = s
		}
	}
	for _, pod := range condemned {
		s := w.condemn(pod, places, condemned)
		if s.acts() || s.wait != "" && !w.parallel() {
			return s
		}
		if held.wait == "" {
			held = s
		}
	}
	if s := w.rollOn(places); s.halts() {
		return s
	}
	return held
}

func (w *world) parallel() bool {
	return w.set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
}

func (w *world) start() int {
	if w.set.Spec.Ordinals == nil {
		return 0
	}
	return int(w.set.Spec.Ordinals.Start)
}

// places are the pods by ordinal, nil where one is missing, and those beyond,
// the highest first.
func (w *world) places() (places, condemned []*corev1.Pod) {
	places = make([]*corev1.Pod, *w.set.Spec.Replicas)
	for _, pod := range w.pods {
		n, ok := ordinal(w.set, pod)
		switch i := n - w.start(); {
		case !ok:
		case i >= 0 && i < len(places):
			places[i] = pod
		default:
			condemned = append(condemned, pod)
		}
	}
	slices.SortFunc(condemned, func(a, b *corev1.Pod) int {
		m, _ := ordinal(w.set, a)
		n, _ := ordinal(w.set, b)
		return n - m
	})
	return places, condemned
}

// fill does for one place what is next.
func (w *world) fill(places []*corev1.Pod, i int) step {
	pod, n := places[i], w.start()+i
	switch {
	case pod == nil:
		return w.make(n)
	case controllers.Ended(pod) && pod.DeletionTimestamp == nil:
		return step{remove: pod, what: fmt.Sprintf("deleted pod %s, which has ended", pod.Name)}
	case pod.DeletionTimestamp != nil:
		return waitFor(pod, "it is being deleted")
	}
	if pod.Status.Phase == corev1.PodPending {
		if s := w.claims(n, nil, false); s.acts() { // somebody may have deleted one
			return s
		}
	}
	if s := w.identify(pod, n); s.acts() {
		return s
	}
	if s := w.claims(n, pod, true); s.acts() {
		return s
	}
	if why, after := w.unavailable(pod); why != "" {
		s := waitFor(pod, why)
		s.after = after
		return s
	}
	return step{}
}

// make creates the pod of an ordinal, after its claims.
func (w *world) make(n int) step {
	if s := w.claims(n, nil, false); s.halts() {
		return s
	}
	pod, err := w.newPod(n)
	if err != nil {
		return step{on: "ControllerRevision " + w.current.Namespace + "/" + w.current.Name, wait: err.Error()}
	}
	return step{create: pod, what: "created pod " + pod.Name}
}

// condemn takes away a pod beyond the last place.
func (w *world) condemn(pod *corev1.Pod, places, condemned []*corev1.Pod) step {
	if pod.DeletionTimestamp != nil {
		return waitFor(pod, "it is being deleted")
	}
	if why, after := w.unavailable(pod); why != "" && !w.parallel() && pod != w.firstUnhealthy(places, condemned) {
		s := waitFor(pod, why)
		s.after = after
		return s
	}
	n, _ := ordinal(w.set, pod)
	if s := w.claims(n, pod, true); s.acts() {
		return s
	}
	return step{remove: pod, what: "deleted pod " + pod.Name + ": there are fewer replicas"}
}

// firstUnhealthy is the pod with the lowest ordinal that is not ready or on its
// way out. It alone may be taken away while it is unhealthy.
func (w *world) firstUnhealthy(places, condemned []*corev1.Pod) *corev1.Pod {
	for _, pod := range places {
		if pod != nil && !healthy(pod) {
			return pod
		}
	}
	for _, pod := range slices.Backward(condemned) {
		if !healthy(pod) {
			return pod
		}
	}
	return nil
}

func healthy(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && controllers.Ready(pod) && pod.DeletionTimestamp == nil
}

// unavailable says why a pod is not, and how long until time alone may change
// that.
func (w *world) unavailable(pod *corev1.Pod) (why string, after time.Duration) {
	if !healthy(pod) {
		return "it is not ready", 0
	}
	least := w.minReady()
	if since := podbatch.ReadyFor(pod, w.now); since < least {
		return fmt.Sprintf("it has to be ready for %s", least), least - since
	}
	return "", 0
}

func (w *world) minReady() time.Duration {
	return time.Duration(w.set.Spec.MinReadySeconds) * time.Second
}

// nextAvailable is how long until a ready pod becomes available; 0: none will.
func (w *world) nextAvailable(places []*corev1.Pod) (next time.Duration) {
	for _, pod := range places {
		if pod == nil {
			continue
		}
		if _, after := w.unavailable(pod); after > 0 && (next == 0 || after < next) {
			next = after
		}
	}
	return next
}

func waitFor(pod *corev1.Pod, why string) step {
	return step{on: "Pod " + pod.Namespace + "/" + pod.Name, wait: why}
}
