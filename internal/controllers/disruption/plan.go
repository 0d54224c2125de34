// Package disruption is the loop that keeps the status of
// PodDisruptionBudgets: how many pods there ought to be, how many are healthy,
// and so how many may be evicted. plan.go decides, without I/O; scale.go asks
// how many pods an owner claims; controller.go reads the views and writes.
//
// The API server takes a disruption from the budget before it evicts a pod, and
// notes the pod in disruptedPods. The loop holds such a pod for gone until it
// is, or until it is clear that it stays.
//
// When the loop cannot tell, nothing may be evicted.
//
// See https://kubernetes.io/docs/concepts/workloads/pods/disruptions/.
package disruption

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/controllers"
)

// deletionTime is how long an evicted pod is believed to be about to go.
const deletionTime = 2 * time.Minute

// world is what the loop sees of one budget.
type world struct {
	budget *policyv1.PodDisruptionBudget // shared: copied before it is changed
	pods   []*corev1.Pod                 // selected
	now    time.Time
	// scale is how many pods the owners of the pods claim together.
	scale func([]*corev1.Pod) (claimed int, unmanaged []string, err error)
}

// step is what is next.
type step struct {
	status    *policyv1.PodDisruptionBudgetStatus // nil when it is right
	after     time.Duration                       // until time alone calls for more; 0: never
	stayed    []string                            // pods that were evicted and did not go
	unmanaged []string                            // pods without an owner that claims a number
	err       error                               // why nothing can be told
}

func plan(w world) (s step) {
	b := w.budget
	st := b.Status.DeepCopy()
	st.ObservedGeneration = b.Generation
	expected, desired, unmanaged, err := w.expected()
	s.unmanaged = unmanaged
	if err != nil {
		s.err = err
		st.DisruptionsAllowed = 0
		w.setCondition(st, policyv1.SyncFailedReason, err.Error())
	} else {
		st.DisruptedPods, s.stayed, s.after = w.disrupted()
		st.ExpectedPods, st.DesiredHealthy = int32(expected), int32(desired)
		st.CurrentHealthy = int32(w.healthy(st.DisruptedPods))
		// A budget that no pod is expected of allows nothing, so that it is
		// safe when its first pods come.
		st.DisruptionsAllowed = max(0, st.CurrentHealthy-st.DesiredHealthy)
		if expected <= 0 {
			st.DisruptionsAllowed = 0
		}
		reason := policyv1.InsufficientPodsReason
		if st.DisruptionsAllowed > 0 {
			reason = policyv1.SufficientPodsReason
		}
		w.setCondition(st, reason, "")
	}
	if !equality.Semantic.DeepEqual(st, &b.Status) {
		s.status = st
	}
	return s
}

// expected is how many pods there ought to be and how many have to be healthy.
func (w *world) expected() (expected, desired int, unmanaged []string, err error) {
	spec := &w.budget.Spec
	switch {
	case spec.MaxUnavailable != nil:
		if expected, unmanaged, err = w.scale(w.pods); err != nil {
			return 0, 0, unmanaged, err
		}
		most, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, expected, true)
		if err != nil {
			return 0, 0, unmanaged, err
		}
		return expected, max(0, expected-most), unmanaged, nil
	case spec.MinAvailable == nil:
		return len(w.pods), 0, nil, nil
	case spec.MinAvailable.Type == intstr.Int:
		return len(w.pods), spec.MinAvailable.IntValue(), nil, nil
	}
	if expected, unmanaged, err = w.scale(w.pods); err != nil {
		return 0, 0, unmanaged, err
	}
	desired, err = intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, expected, true)
	return expected, desired, unmanaged, err
}

// disrupted are the pods of the budget's note that are still about to go.
func (w *world) disrupted() (still map[string]metav1.Time, stayed []string, after time.Duration) {
	for _, pod := range w.pods {
		at, ok := w.budget.Status.DisruptedPods[pod.Name]
		if !ok || pod.DeletionTimestamp != nil {
			continue
		}
		left := at.Add(deletionTime).Sub(w.now)
		if left < 0 {
			stayed = append(stayed, pod.Name)
			continue
		}
		if still == nil {
			still = map[string]metav1.Time{}
		}
		still[pod.Name] = at
		if left += time.Millisecond; after == 0 || left < after {
			after = left
		}
	}
	slices.Sort(stayed)
	return still, stayed, after
}

func (w *world) healthy(disrupted map[string]metav1.Time) (n int) {
	for _, pod := range w.pods {
		if _, going := disrupted[pod.Name]; !going && pod.DeletionTimestamp == nil && controllers.Ready(pod) {
			n++
		}
	}
	return n
}

func (w *world) setCondition(st *policyv1.PodDisruptionBudgetStatus, reason, message string) {
	c := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: st.ObservedGeneration, LastTransitionTime: metav1.NewTime(w.now).Rfc3339Copy(),
	}
	if reason == policyv1.SufficientPodsReason {
		c.Status = metav1.ConditionTrue
	}
	i := slices.IndexFunc(st.Conditions, func(had metav1.Condition) bool { return had.Type == c.Type })
	if i < 0 {
		st.Conditions = append(st.Conditions, c)
		return
	}
	if st.Conditions[i].Status == c.Status {
		c.LastTransitionTime = st.Conditions[i].LastTransitionTime
	}
	st.Conditions[i] = c
}
