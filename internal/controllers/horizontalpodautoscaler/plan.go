// Package horizontalpodautoscaler is the loop that sets how many replicas a
// workload has by what is measured of it.
//
//	every 15 s: scale of the target, its pods, what is measured (source.go)
//	  -> each metric asks for a number (demand.go, pods.go); the largest counts
//	  -> held back by what was asked for lately, by policies, by the bounds (behavior.go)
//	  -> the scale, and the status that says why
//
// plan.go decides, without I/O; controller.go reads and writes. What was asked
// for and done lately is in memory only (history.go), as upstream has it: a
// loop that starts takes what it finds for the first recommendation, so that a
// restart never shrinks anything at once.
//
// The number and the status that explains it come of one look at the metrics,
// so both are written in one look: the one place where a step is two writes. A
// crash between them leaves a status that the next look mends.
//
// See https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/.
package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is what the loop sees of one autoscaler whose target was found.
type world struct {
	hpa     *autoscalingv2.HorizontalPodAutoscaler // shared: copied before it is changed
	scale   *autoscalingv1.Scale
	pods    []*corev1.Pod // that the scale's selector selects
	invalid error         // of the selector; nothing can be measured
	rivals  []string      // "namespace/name" of all autoscalers that select some of the pods, if there are several
	// measured has an entry for each metric of the spec.
	measured []measured
	history  *history // changed by plan
	now      time.Time
}

// measured is what was found of one metric.
type measured struct {
	pods  readings // of resources and pods
	value int64    // of objects and external metrics, in thousandths
	err   error    // why there is none
}

// step is what is next.
type step struct {
	status  autoscalingv2.HorizontalPodAutoscalerStatus
	desired int32
	rescale bool   // to desired
	why     string // the number, or the failure
	err     error  // why there is no number
	events  []event
}

type event struct{ kind, reason, message string }

func plan(w world) step {
	h := w.hpa
	s := step{status: *h.Status.DeepCopy()}
	s.status.ObservedGeneration = &h.Generation
	current, least := w.scale.Spec.Replicas, int32(1)
	if h.Spec.MinReplicas != nil {
		least = *h.Spec.MinReplicas
	}
	s.status.CurrentReplicas, s.status.CurrentMetrics, s.desired = current, nil, current
	w.set(&s, autoscalingv2.AbleToScale, true, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	w.history.begin(current, w.now)
	switch {
	case current == 0 && least != 0:
		s.status.DesiredReplicas = 0
		w.set(&s, autoscalingv2.ScalingActive, false, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		return s
	case current > h.Spec.MaxReplicas:
		s.desired, s.why = h.Spec.MaxReplicas, "Current number of replicas above Spec.MaxReplicas"
	case current < least:
		s.desired, s.why = least, "Current number of replicas below Spec.MinReplicas"
	default:
		asked, metric := w.ask(&s)
		if s.err != nil {
			s.why = s.err.Error()
			return s
		}
		switch {
		case asked > current:
			s.why = metric + " above target"
		case asked < current:
			s.why = "All metrics below target"
		}
		s.desired = w.normalize(&s, current, asked, least)
	}
	s.rescale = s.desired != current
	s.status.DesiredReplicas = s.desired
	return s
}

// ask lets each metric ask for a number; the largest counts. One that cannot be
// told keeps the rest from scaling down, not from scaling up.
func (w *world) ask(s *step) (replicas int32, name string) {
	fail := func(reason, message string) (int32, string) {
		w.set(s, autoscalingv2.ScalingActive, false, reason, message)
		s.err = errors.New(message)
		return 0, ""
	}
	switch {
	case w.invalid != nil && w.scale.Status.Selector == "":
		w.tell(s, autoscalingv2.ScalingActive, "InvalidSelector", corev1.EventTypeWarning, "SelectorRequired", "selector is required")
		return fail("InvalidSelector", "the HPA target's scale is missing a selector")
	case w.invalid != nil:
		message := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", w.invalid)
		w.tell(s, autoscalingv2.ScalingActive, "InvalidSelector", corev1.EventTypeWarning, "InvalidSelector", message)
		return fail("InvalidSelector", message)
	case len(w.rivals) > 1:
		message := fmt.Sprintf("pods by selector %v are controlled by multiple HPAs: %v", w.scale.Status.Selector, w.rivals)
		w.tell(s, autoscalingv2.ScalingActive, "AmbiguousSelector", corev1.EventTypeWarning, "AmbiguousSelector", message)
		return fail("AmbiguousSelector", message)
	}
	d := w.demand()
	specs := w.hpa.Spec.Metrics
	s.status.CurrentMetrics = make([]autoscalingv2.MetricStatus, len(specs))
	var first *failure
	failed := 0
	for i := range specs {
		p, bad := d.metric(&specs[i], w.measured[i])
		if bad != nil {
			// The place of a metric that is not known stays empty.
			s.status.CurrentMetrics[i] = autoscalingv2.MetricStatus{}
			failed++
			if first == nil {
				first = bad
			}
			w.tell(s, autoscalingv2.ScalingActive, bad.reason, corev1.EventTypeWarning, bad.reason, bad.err.Error())
			continue
		}
		s.status.CurrentMetrics[i] = p.status
		if name == "" || p.replicas > replicas {
			replicas, name = p.replicas, p.name
		}
	}
	if failed == len(specs) || failed > 0 && replicas < w.scale.Spec.Replicas {
		message := fmt.Sprintf("the HPA was unable to compute the replica count: %v", first.err)
		s.err = fmt.Errorf("invalid metrics (%d invalid out of %d), first error is: failed to get %s metric value: %w", failed, len(specs), first.what, first.err)
		if !w.known(autoscalingv2.ScalingActive, first.reason, message) {
			s.events = append(s.events, event{corev1.EventTypeWarning, "FailedComputeMetricsReplicas", s.err.Error()})
		}
		w.set(s, autoscalingv2.ScalingActive, false, first.reason, message)
		return 0, ""
	}
	w.set(s, autoscalingv2.ScalingActive, true, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+name)
	return replicas, name
}

// tell adds an event, unless the condition says the same already: people are
// told once.
func (w *world) tell(s *step, t autoscalingv2.HorizontalPodAutoscalerConditionType, reason, kind, eventReason, message string) {
	for _, c := range w.hpa.Status.Conditions {
		if c.Type == t && c.Reason == reason && c.Status == corev1.ConditionFalse {
			return
		}
	}
	s.events = append(s.events, event{kind, eventReason, message})
}

func (w *world) known(t autoscalingv2.HorizontalPodAutoscalerConditionType, reason, message string) bool {
	for _, c := range w.hpa.Status.Conditions {
		if c.Type == t {
			return c.Reason == reason && c.Message == message
		}
	}
	return false
}

// set sets a condition.
func (w *world) set(s *step, t autoscalingv2.HorizontalPodAutoscalerConditionType, is bool, reason, message string) {
	setCondition(&s.status, w.hpa, t, is, reason, message, w.now)
}

func setCondition(st *autoscalingv2.HorizontalPodAutoscalerStatus, h *autoscalingv2.HorizontalPodAutoscaler, t autoscalingv2.HorizontalPodAutoscalerConditionType, is bool, reason, message string, now time.Time) {
	want := autoscalingv2.HorizontalPodAutoscalerCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(), ObservedGeneration: &h.Generation}
	if is {
		want.Status = corev1.ConditionTrue
	}
	for i := range st.Conditions {
		c := &st.Conditions[i]
		if c.Type != t {
			continue
		}
		if c.Status == want.Status {
			want.LastTransitionTime = c.LastTransitionTime
		}
		*c = want
		return
	}
	st.Conditions = append(st.Conditions, want)
}
