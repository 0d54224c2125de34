package replicaset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Reasons of the ReplicaFailure condition, and of events.
const (
	failedCreate = "FailedCreate"
	failedDelete = "FailedDelete"
)

// status is what the ReplicaSet's ought to be; nil when it is that.
func (w *world) status(live []*corev1.Pod, terminating int) *appsv1.ReplicaSetStatus {
	n := int32(terminating)
	s := appsv1.ReplicaSetStatus{
		Replicas:            int32(len(live)),
		TerminatingReplicas: &n,
		ObservedGeneration:  w.rs.Generation,
		Conditions:          slices.Clone(w.rs.Status.Conditions),
	}
	if w.uncounted {
		s.TerminatingReplicas = nil
	}
	template := labels.SelectorFromSet(w.rs.Spec.Template.Labels)
	for _, pod := range live {
		if template.Matches(labels.Set(pod.Labels)) {
			s.FullyLabeledReplicas++
		}
		if ready := readyFor(pod, w.now); ready >= 0 {
			s.ReadyReplicas++
			if ready >= w.minReady() {
				s.AvailableReplicas++
			}
		}
	}
	failed := slices.IndexFunc(s.Conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	switch {
	case w.memo.failure == nil && failed >= 0:
		s.Conditions = slices.Delete(s.Conditions, failed, failed+1)
	case w.memo.failure != nil && failed < 0:
		s.Conditions = append(s.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(w.now).Rfc3339Copy(),
			Reason:             w.memo.failing, Message: w.memo.failure.Error(),
		})
	}
	if equality.Semantic.DeepEqual(s, w.rs.Status) {
		return nil
	}
	return &s
}

func (w *world) minReady() time.Duration {
	return time.Duration(w.rs.Spec.MinReadySeconds) * time.Second
}

// nextAvailable is how long until the next ready pod has been ready for long
// enough; 0 when there is none to wait for.
func (w *world) nextAvailable(live []*corev1.Pod) (next time.Duration) {
	for _, pod := range live {
		if ready := readyFor(pod, w.now); ready >= 0 && ready < w.minReady() {
			if left := w.minReady() - ready; next == 0 || left < next {
				next = left
			}
		}
	}
	return next
}

// readyFor is how long a pod has been ready, negative when it is not.
func readyFor(pod *corev1.Pod, now time.Time) time.Duration {
	c := readyCondition(pod)
	if c == nil || c.Status != corev1.ConditionTrue {
		return -1
	}
	return max(0, now.Sub(c.LastTransitionTime.Time))
}

func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
