package podgc

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quarantine is how long a node must be gone before its pods are: it may be
// about to come back, or be newer than what we see.
const quarantine = 40 * time.Second

// step is what is next for a pod: at most one of status and remove.
type step struct {
	status *corev1.PodStatus
	remove bool
	wait   time.Duration // look again after that; 0 means never
	why    string
}

// plan decides what is next for a pod. gone is when its node was first seen
// missing; zero: the node is there.
//
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection
func plan(pod *corev1.Pod, gone, now time.Time) step {
	switch {
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil && !heldBack(pod):
		return step{remove: true, why: "it was deleted before it had a node"}
	case pod.Spec.NodeName == "" || gone.IsZero():
		return step{}
	case now.Sub(gone) < quarantine:
		return step{wait: quarantine - now.Sub(gone), why: "its node is gone"}
	case !ended(pod):
		return step{status: failed(pod, now), why: "its node is gone"}
	case heldBack(pod):
		return step{} // the next step is the finalizers'
	}
	return step{remove: true, why: "its node is gone"}
}

// heldBack says that the pod was deleted for good and finalizers hold it.
func heldBack(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
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
