package statefulset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

// status is what the set's ought to be; nil when it is that.
func (w *world) status(places, condemned []*corev1.Pod) *appsv1.StatefulSetStatus {
	set := w.set
	st := appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation,
		CurrentRevision:    w.current.Name,
		UpdateRevision:     w.update.Name,
		CollisionCount:     set.Status.CollisionCount,
		Conditions:         set.Status.Conditions,
	}
	if st.CollisionCount == nil {
		st.CollisionCount = new(int32)
	}
	for _, pod := range slices.Concat(places, condemned) {
		if pod == nil {
			continue
		}
		st.Replicas++
		if pod.Status.Phase == corev1.PodRunning && controllers.Ready(pod) {
			st.ReadyReplicas++
			if podbatch.ReadyFor(pod, w.now) >= w.minReady() {
				st.AvailableReplicas++
			}
		}
		if pod.DeletionTimestamp != nil {
			continue
		}
		if revisionOf(pod) == w.current.Name {
			st.CurrentReplicas++
		}
		if revisionOf(pod) == w.update.Name {
			st.UpdatedReplicas++
		}
	}
	if want := *set.Spec.Replicas; set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		st.UpdatedReplicas == want && st.ReadyReplicas == want && st.Replicas == want {
		st.CurrentRevision, st.CurrentReplicas = st.UpdateRevision, st.UpdatedReplicas
	}
	if equality.Semantic.DeepEqual(st, set.Status) {
		return nil
	}
	return &st
}

// urgent tells whether a status tells of revisions that the written one does
// not: what comes next depends on them.
func (w *world) urgent(st *appsv1.StatefulSetStatus) bool {
	was := &w.set.Status
	return st != nil && (was.CurrentRevision == "" || was.UpdateRevision != st.UpdateRevision)
}
