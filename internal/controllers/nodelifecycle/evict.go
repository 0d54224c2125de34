package nodelifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// podStep is what is next for a pod whose node is not well: at most one of
// status and evict.
type podStep struct {
	status *corev1.PodStatus
	mark   string // what the status says of the pod: "not ready"
	evict  bool
	wait   time.Duration // until it is evicted; 0 means never
	taint  string        // that evicts it
}

// planPod decides the next step for a pod on a node.
func planPod(pod *corev1.Pod, node *corev1.Node, added func(corev1.Taint) time.Time, now time.Time) podStep {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return podStep{}
	}
	// Upstream marks pods of nodes that say themselves that they are not
	// ready as well, once; told again and again that would quarrel with a
	// kubelet that lives and knows its pods.
	if ready(node) == corev1.ConditionUnknown {
		if st := notReady(pod, now); st != nil {
			return podStep{status: st, mark: "not ready"}
		}
	}
	if pod.DeletionTimestamp != nil {
		return podStep{}
	}
	due, taint, ok := evictionDue(pod, node, added)
	switch {
	case !ok:
		return podStep{}
	case now.Before(due):
		return podStep{wait: due.Sub(now), taint: taint}
	}
	if st := disrupted(pod, now); st != nil {
		return podStep{status: st, mark: "as disrupted by taint " + taint, taint: taint}
	}
	return podStep{evict: true, taint: taint}
}

// evictionDue is when a pod has to leave because of a NoExecute taint: at once
// if it does not tolerate it, else after the shortest of the times for which
// it does; false is never.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions
func evictionDue(pod *corev1.Pod, node *corev1.Node, added func(corev1.Taint) time.Time) (due time.Time, key string, ok bool) {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		at := added(*taint)
		k := slices.IndexFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Logger{}, taint, true)
		})
		if k >= 0 {
			seconds := pod.Spec.Tolerations[k].TolerationSeconds
			if seconds == nil {
				continue
			}
			at = at.Add(time.Duration(max(*seconds, 0)) * time.Second)
		}
		if !ok || at.Before(due) {
			due, key, ok = at, taint.Key, true
		}
	}
	return due, key, ok
}

// notReady returns the status with Ready=False, or nil if it says so already.
func notReady(pod *corev1.Pod, now time.Time) *corev1.PodStatus {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i < 0 || pod.Status.Conditions[i].Status != corev1.ConditionTrue {
		return nil
	}
	st := pod.Status.DeepCopy()
	st.Conditions[i].Status = corev1.ConditionFalse
	st.Conditions[i].LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	return st
}

// disrupted returns the status with the condition that tells a Job that the
// pod did not fail by itself, or nil if it says so already.
func disrupted(pod *corev1.Pod, now time.Time) *corev1.PodStatus {
	c := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint", ObservedGeneration: pod.Generation,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
	st := pod.Status.DeepCopy()
	i := slices.IndexFunc(st.Conditions, func(had corev1.PodCondition) bool { return had.Type == c.Type })
	switch {
	case i < 0:
		st.Conditions = append(st.Conditions, c)
	case st.Conditions[i].Status == c.Status:
		return nil
	default:
		st.Conditions[i] = c
	}
	return st
}
