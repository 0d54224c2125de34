package podgc

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/controllers"
)

// quarantine is how long a node must be gone before its pods are: it may be
// about to come back, or be newer than what we see.
const quarantine = 40 * time.Second

// step is what is next for a pod: at most one of status and remove.
type step struct {
	status *corev1.PodStatus
	remove bool
	// absent is what the step is right for only while the pod's node is gone.
	absent bool
	wait   time.Duration // look again after that; 0 means never
	why    string
}

// lost is what became of a pod's node.
type lost struct {
	gone  time.Time // when it was first seen missing; zero: it is there
	outOf bool      // somebody has said that it is out of service, and it is not ready
}

// plan decides what is next for a pod.
//
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection
// https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown
func plan(pod *corev1.Pod, node lost, now time.Time) step {
	switch {
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil && !heldBack(pod):
		return step{remove: true, why: "it was deleted before it had a node"}
	case pod.Spec.NodeName == "":
		return step{}
	case node.outOf && pod.DeletionTimestamp != nil:
		return end(pod, ended(pod), "its node is out of service")
	case node.gone.IsZero():
		return step{}
	case now.Sub(node.gone) < quarantine:
		return step{wait: quarantine - now.Sub(node.gone), why: "its node is gone"}
	}
	next := end(pod, failed(pod, now), "its node is gone")
	next.absent = true
	return next
}

// end is the steps by which a pod goes that no kubelet looks after: status, if
// it has not ended, and then it is removed.
func end(pod *corev1.Pod, status *corev1.PodStatus, why string) step {
	switch {
	case !controllers.Ended(pod):
		return step{status: status, why: why}
	case heldBack(pod):
		return step{} // the next step is the finalizers'
	}
	return step{remove: true, why: why}
}

// outOfService tells that nothing runs on a node any more, as far as somebody
// knows who said so, and the node does not speak against it.
func outOfService(node *corev1.Node) bool {
	if node == nil || !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
		return false
	}
	return !controllers.NodeReady(node)
}

// surplus are the pods that have ended and are too many: those that were
// evicted first, then the oldest.
func surplus(pods []*corev1.Pod, most int) []*corev1.Pod {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return !countsAsEnded(p) })
	if len(pods) <= most {
		return nil
	}
	evicted := func(p *corev1.Pod) bool { return p.Status.Reason == "Evicted" }
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		switch {
		case evicted(a) != evicted(b):
			if evicted(a) {
				return -1
			}
			return 1
		case !a.CreationTimestamp.Equal(&b.CreationTimestamp):
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		}
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return pods[:len(pods)-most]
}

// countsAsEnded tells whether a pod is one of those there may be only so many
// of. One that is being deleted is on its way.
func countsAsEnded(pod *corev1.Pod) bool {
	return controllers.Ended(pod) && pod.DeletionTimestamp == nil
}

// heldBack says that the pod was deleted for good and finalizers hold it.
func heldBack(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

// ended returns the status of a pod that nobody runs any more.
func ended(pod *corev1.Pod) *corev1.PodStatus {
	st := pod.Status.DeepCopy()
	st.Phase = corev1.PodFailed
	return st
}

// failed returns the status of a pod that went with its node, so that a Job
// that waits for its end learns that it did not fail by itself.
func failed(pod *corev1.Pod, now time.Time) *corev1.PodStatus {
	st := pod.Status.DeepCopy()
	st.Phase = corev1.PodFailed
	c := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC",
		Message: "PodGC: node no longer exists", ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
	if i := slices.IndexFunc(st.Conditions, func(had corev1.PodCondition) bool { return had.Type == c.Type }); i >= 0 {
		st.Conditions[i] = c
	} else {
		st.Conditions = append(st.Conditions, c)
	}
	return st
}
