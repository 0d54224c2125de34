package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// rollOn deletes the pod with the highest ordinal that is of an old revision,
// when so many are available that one may go. It is made anew at the place's
// turn.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#rolling-updates.
func (w *world) rollOn(places []*corev1.Pod) step {
	if w.set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		return step{}
	}
	budget := w.maxUnavailable()
	var held step
	for _, pod := range places {
		why := "it is missing"
		if pod != nil {
			why, _ = w.unavailable(pod)
		}
		// A pod of an old revision that does not work harms nobody when it
		// goes; in the order of ordinals it is not skipped, though.
		if why != "" {
			budget--
			if pod != nil && held.wait == "" {
				held = waitFor(pod, why)
			}
		}
	}
	for i := len(places) - 1; i >= int(w.partition()); i-- {
		pod := places[i]
		if pod == nil || pod.DeletionTimestamp != nil {
			continue
		}
		why, _ := w.unavailable(pod)
		if revisionOf(pod) == w.update.Name {
			continue
		}
		if budget > 0 || why != "" && w.mayReplaceBroken(places, i) {
			return step{remove: pod, what: "deleted pod " + pod.Name + " of an old revision"}
		}
		return held
	}
	return step{}
}

// mayReplaceBroken tells whether a pod of an old revision that is not available
// anyway may go though the budget is spent: when all above it are updated and
// available.
func (w *world) mayReplaceBroken(places []*corev1.Pod, i int) bool {
	for _, pod := range places[i+1:] {
		if pod == nil {
			return false
		}
		if why, _ := w.unavailable(pod); why != "" || revisionOf(pod) != w.update.Name {
			return false
		}
	}
	return true
}

func (w *world) rollingUpdate() appsv1.RollingUpdateStatefulSetStrategy {
	if ru := w.set.Spec.UpdateStrategy.RollingUpdate; ru != nil {
		return *ru
	}
	return appsv1.RollingUpdateStatefulSetStrategy{}
}

func (w *world) partition() int32 {
	if p := w.rollingUpdate().Partition; p != nil {
		return *p
	}
	return 0
}

// maxUnavailable is how many pods may be unavailable amid an update, at least
// one.
func (w *world) maxUnavailable() int {
	v := w.rollingUpdate().MaxUnavailable
	if v == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(*w.set.Spec.Replicas), false)
	if err != nil {
		return 1
	}
	return max(1, n)
}

// wantsCurrent tells whether a new pod is to be of the revision before: the
// partition keeps it from the update.
func (w *world) wantsCurrent(n int) bool {
	if w.set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType || w.current.Name == w.update.Name {
		return false
	}
	return n < w.start()+int(w.partition())
}

func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.ControllerRevisionHashLabelKey] }
