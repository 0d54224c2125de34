package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cpuMetric is of half the request.
func cpuMetric() autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))}}}
}

// scene is an autoscaler over some replicas of which each uses a part of its
// request, in percent, and time that goes by.
type scene struct {
	*testing.T
	w       world
	percent int64 // < 0: the metric is not there
}

func newScene(t *testing.T, replicas, least, most int32) *scene {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 3},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: &least, MaxReplicas: most, Metrics: []autoscalingv2.MetricSpec{cpuMetric()}}}
	s := &scene{T: t, w: world{hpa: h, scale: &autoscalingv1.Scale{}, history: &history{}, now: now}}
	s.w.scale.Spec.Replicas, s.w.scale.Status.Selector = replicas, "app=web"
	return s
}

// look plans once at a part of the request, and does what is planned.
func (s *scene) look(percent int64) step {
	w := &s.w
	var r readings
	w.pods, r = crowd(strings.Repeat("r", int(w.scale.Spec.Replicas)), percent)
	for i := range r { // ready for long, whatever the time
		m := r[i]
		m.at = w.now
		r[i] = m
	}
	w.scale.Status.Replicas = w.scale.Spec.Replicas
	w.measured = make([]measured, len(w.hpa.Spec.Metrics))
	for i := range w.measured {
		w.measured[i] = measured{pods: r, value: percent * int64(w.scale.Spec.Replicas)}
		if percent < 0 {
			w.measured[i].err = errors.New("away")
		}
	}
	st := plan(*w)
	if st.rescale {
		w.history.scaled(w.scale.Spec.Replicas, st.desired, w.now)
		w.scale.Spec.Replicas = st.desired
	}
	h := w.hpa.DeepCopy()
	h.Status = st.status
	w.hpa = h
	return st
}

// after lets time go by and looks every 15 s; it lists the numbers of replicas.
func (s *scene) after(d time.Duration, percent func(replicas int32) int64) string {
	var out []string
	for end := s.w.now.Add(d); s.w.now.Before(end); {
		s.w.now = s.w.now.Add(period)
		s.look(percent(s.w.scale.Spec.Replicas))
		if n := fmt.Sprint(s.w.scale.Spec.Replicas); len(out) == 0 || out[len(out)-1] != n {
			out = append(out, n)
		}
	}
	return strings.Join(out, " ")
}

// shared is a load of all replicas together, in percent of one request.
func shared(load int64) func(int32) int64 {
	return func(n int32) int64 { return load / int64(n) }
}

func (s *scene) expect(what, got, want string) {
	s.Helper()
	if got != want {
		s.Errorf("%s: %s, want %s", what, got, want)
	}
}

// conditions are "type=status reason", by type.
func (s *scene) conditions() string {
	var out []string
	for _, c := range s.w.hpa.Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(out, ", ")
}

// Up at once but at most the double or to four; down after five minutes.
func TestUpAndDown(t *testing.T) {
	s := newScene(t, 1, 1, 20)
	s.expect("a load of 800%", s.after(2*time.Minute, shared(800)), "4 8 16")
	s.expect("conditions", s.conditions(), "AbleToScale=True ReadyForNewScale, ScalingActive=True ValidMetricFound, ScalingLimited=False DesiredWithinRange")
	s.expect("a load of 100%", s.after(4*time.Minute, shared(100)), "16")
	s.expect("conditions", s.conditions(), "AbleToScale=True ScaleDownStabilized, ScalingActive=True ValidMetricFound, ScalingLimited=False DesiredWithinRange")
	s.expect("some minutes more", s.after(2*time.Minute, shared(100)), "16 2")
	s.expect("no load", s.after(10*time.Minute, shared(0)), "2 1")
	s.expect("conditions", s.conditions(), "AbleToScale=True ReadyForNewScale, ScalingActive=True ValidMetricFound, ScalingLimited=True TooFewReplicas")
}

// A loop that has just started shrinks nothing at once.
func TestStart(t *testing.T) {
	s := newScene(t, 10, 1, 20)
	s.expect("at the start", s.after(4*time.Minute, shared(100)), "10")
	s.expect("later", s.after(2*time.Minute, shared(100)), "10 2")
}

func TestBounds(t *testing.T) {
	s := newScene(t, 30, 2, 20)
	st := s.look(-1) // metrics do not matter
	s.expect("above", fmt.Sprintf("%d %s", st.desired, st.why), "20 Current number of replicas above Spec.MaxReplicas")
	s = newScene(t, 1, 2, 20)
	st = s.look(-1)
	s.expect("below", fmt.Sprintf("%d %s", st.desired, st.why), "2 Current number of replicas below Spec.MinReplicas")
	s = newScene(t, 0, 2, 20)
	st = s.look(-1)
	s.expect("at zero", fmt.Sprintf("%d %t", st.desired, st.rescale), "0 false")
	s.expect("at zero", s.conditions(), "AbleToScale=True SucceededGetScale, ScalingActive=False ScalingDisabled")
	s = newScene(t, 3, 1, 4)
	st = s.look(500)
	s.expect("a lot", fmt.Sprintf("%d %s", st.desired, st.why), "4 cpu resource utilization (percentage of request) above target")
	s.expect("a lot", s.conditions(), "AbleToScale=True ReadyForNewScale, ScalingActive=True ValidMetricFound, ScalingLimited=True TooManyReplicas")
	if st.status.DesiredReplicas != 4 || st.status.CurrentReplicas != 3 || *st.status.ObservedGeneration != 3 || *st.status.CurrentMetrics[0].Resource.Current.AverageUtilization != 500 {
		t.Errorf("status %+v", st.status)
	}
}

// From and to zero, with a metric that is there without pods.
func TestZero(t *testing.T) {
	s := newScene(t, 0, 0, 10)
	s.w.hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: milli(10)}}}}
	ask := func(value int64) step {
		s.w.now = s.w.now.Add(10 * time.Minute)
		s.w.measured = []measured{{value: value}}
		s.w.scale.Status.Replicas = s.w.scale.Spec.Replicas
		st := plan(s.w)
		s.w.scale.Spec.Replicas = st.desired
		return st
	}
	for _, tc := range []struct {
		value int64
		want  int32
	}{{0, 0}, {25, 3}, {0, 0}, {100, 4}} {
		if st := ask(tc.value); st.desired != tc.want {
			t.Errorf("%d in the queue: %d replicas, want %d", tc.value, st.desired, tc.want)
		}
	}
}

func TestBehavior(t *testing.T) {
	policies := func(selects autoscalingv2.ScalingPolicySelect, window int32, p ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{SelectPolicy: &selects, StabilizationWindowSeconds: &window, Policies: p}
	}
	pods := func(n, seconds int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: n, PeriodSeconds: seconds}
	}
	percent := func(n, seconds int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: n, PeriodSeconds: seconds}
	}
	const most, fewest, off = autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect
	all := policies(most, 0, percent(100, 15))
	for _, tc := range []struct {
		name     string
		up, down *autoscalingv2.HPAScalingRules
		replicas int32
		load     int64 // 100 is a need of two
		minutes  int
		want     string
	}{
		{"two a minute", policies(most, 0, pods(2, 60)), all, 1, 300, 3, "3 5 6"},
		{"a half more a minute", policies(most, 0, percent(50, 60)), all, 4, 1000, 4, "6 9 14 20"},
		{"the more of two", policies(most, 0, pods(4, 60), percent(100, 60)), all, 1, 1000, 3, "5 10 20"},
		{"the less of two", policies(fewest, 0, pods(1, 60), percent(100, 60)), all, 1, 1000, 3, "2 3 4"},
		{"never up", policies(off, 0), all, 3, 1000, 3, "3"},
		{"never down", all, policies(off, 0), 9, 100, 20, "9"},
		{"one down a minute", all, policies(most, 0, pods(1, 60)), 5, 100, 3, "4 3 2"},
		{"a tenth down a minute", all, policies(most, 0, percent(10, 60)), 10, 100, 3, "9 8 7"},
		{"the less of two down", all, policies(fewest, 0, pods(1, 60), percent(50, 60)), 8, 100, 2, "7 6"},
		{"the more of two down", all, policies(most, 0, pods(1, 60), percent(50, 60)), 8, 100, 2, "4 2"},
		{"down at once", all, policies(most, 0, percent(100, 15)), 10, 100, 1, "2"},
		{"down after a minute", all, policies(most, 60, percent(100, 15)), 10, 100, 2, "10 2"},
		{"up after a minute", policies(most, 60, percent(900, 15)), all, 2, 500, 2, "2 10"},
	} {
		s := newScene(t, tc.replicas, 1, 50)
		s.w.hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: tc.up, ScaleDown: tc.down}
		s.expect(tc.name, s.after(time.Duration(tc.minutes)*time.Minute, shared(tc.load)), tc.want)
	}
	s := newScene(t, 4, 1, 50)
	s.w.hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: policies(most, 0, pods(2, 60)), ScaleDown: policies(most, 0, pods(1, 60))}
	s.look(500)
	s.expect("the rate of the way up", s.conditions(), "AbleToScale=True ReadyForNewScale, ScalingActive=True ValidMetricFound, ScalingLimited=True ScaleUpLimit")
	s.look(1)
	s.expect("the rate of the way down", s.conditions(), "AbleToScale=True ReadyForNewScale, ScalingActive=True ValidMetricFound, ScalingLimited=True ScaleDownLimit")
}

// Of several metrics the largest counts; one that is not there keeps the others
// from scaling down.
func TestSeveralMetrics(t *testing.T) {
	other := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: milli(10)}}}
	for _, tc := range []struct {
		cpu, queue int64 // < 0: not there
		want       string
	}{
		{100, 10, "8 cpu resource utilization (percentage of request) above target"},
		{50, 70, "7 external metric queue(nil) above target"},
		{100, -1, "8 cpu resource utilization (percentage of request) above target"},
		{10, -1, "4 invalid metrics (1 invalid out of 2), first error is: failed to get queue external metric value: away"},
		{-1, 10, "4 invalid metrics (1 invalid out of 2), first error is: failed to get cpu resource metric value: failed to get cpu utilization: away"},
		{-1, -1, "4 invalid metrics (2 invalid out of 2), first error is: failed to get cpu resource metric value: failed to get cpu utilization: away"},
		{50, -1, "4 "},
	} {
		s := newScene(t, 4, 1, 50)
		s.w.hpa.Spec.Metrics = append(s.w.hpa.Spec.Metrics, other)
		s.w.hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{}
		s.w.hpa.Spec.Behavior = nil
		var r readings
		s.w.pods, r = crowd("rrrr", tc.cpu)
		s.w.scale.Status.Replicas = 4
		s.w.measured = []measured{{pods: r}, {value: tc.queue}}
		for i, v := range []int64{tc.cpu, tc.queue} {
			if v < 0 {
				s.w.measured[i] = measured{err: errors.New("away")}
			}
		}
		st := plan(s.w)
		s.expect(fmt.Sprintf("cpu %d, queue %d", tc.cpu, tc.queue), fmt.Sprintf("%d %s", st.desired, st.why), tc.want)
		if len(st.status.CurrentMetrics) != 2 || (st.status.CurrentMetrics[1].Type == "") != (tc.queue < 0) {
			t.Errorf("metrics are told as %+v", st.status.CurrentMetrics)
		}
	}
}

// People are told of a failure once, not at every look.
func TestToldOnce(t *testing.T) {
	s := newScene(t, 4, 1, 50)
	var told []string
	for range 4 {
		for _, e := range s.look(-1).events {
			told = append(told, e.kind+" "+e.reason)
		}
	}
	s.expect("events", fmt.Sprint(told), "[Warning FailedGetResourceMetric Warning FailedComputeMetricsReplicas]")
	s.expect("conditions", s.conditions(), "AbleToScale=True SucceededGetScale, ScalingActive=False FailedGetResourceMetric")
	before := s.w.hpa.Status.Conditions[1].LastTransitionTime
	s.w.now = s.w.now.Add(time.Minute)
	s.look(-1)
	if after := s.w.hpa.Status.Conditions[1].LastTransitionTime; !after.Equal(&before) {
		t.Errorf("the condition turned at %s, then at %s", before, after)
	}
}

func TestSelectors(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		reason string
		event  string
	}{
		"none":      {func(w *world) { w.scale.Status.Selector, w.invalid = "", errors.New("none") }, "InvalidSelector", "SelectorRequired"},
		"wrong":     {func(w *world) { w.scale.Status.Selector, w.invalid = "a==", errors.New("wrong") }, "InvalidSelector", "InvalidSelector"},
		"ambiguous": {func(w *world) { w.rivals = []string{"default/other", "default/web"} }, "AmbiguousSelector", "AmbiguousSelector"},
	} {
		s := newScene(t, 4, 1, 50)
		tc.change(&s.w)
		st := s.look(100)
		s.expect(name, s.conditions(), "AbleToScale=True SucceededGetScale, ScalingActive=False "+tc.reason)
		if st.rescale || st.err == nil || len(st.events) != 1 || st.events[0].reason != tc.event {
			t.Errorf("%s: %+v", name, st)
		}
		if again := s.look(100); len(again.events) != 0 {
			t.Errorf("%s: told again: %+v", name, again.events)
		}
	}
}
