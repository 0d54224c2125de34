package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/controllers"
)

// status is what the set's ought to be; nil when it is that. Of the pods of a
// node the oldest counts.
func (w *world) status(spots []*spot) *appsv1.DaemonSetStatus {
	st := appsv1.DaemonSetStatus{
		ObservedGeneration: w.set.Generation,
		CollisionCount:     w.set.Status.CollisionCount,
		Conditions:         w.set.Status.Conditions,
	}
	for _, at := range spots {
		switch {
		case !at.wanted && len(at.pods) > 0:
			st.NumberMisscheduled++
		case at.wanted:
			st.DesiredNumberScheduled++
			if len(at.pods) == 0 {
				continue
			}
			st.CurrentNumberScheduled++
			pod := at.pods[0]
			if controllers.Ready(pod) {
				st.NumberReady++
			}
			if w.available(pod) {
				st.NumberAvailable++
			}
			if w.isCurrent(pod) {
				st.UpdatedNumberScheduled++
			}
		}
	}
	st.NumberUnavailable = st.DesiredNumberScheduled - st.NumberAvailable
	if equality.Semantic.DeepEqual(st, w.set.Status) {
		return nil
	}
	return &st
}
