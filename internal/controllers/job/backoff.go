package job

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

// After a failure the next pod waits; the wait doubles with each further one.
const (
	firstBackoff = 10 * time.Second
	lastBackoff  = 10 * time.Minute
)

// backoff is how long after the last of n failures in a row nothing is made.
func backoff(n int) time.Duration {
	if n == 0 {
		return 0
	}
	d := firstBackoff
	for range n - 1 {
		if d *= 2; d >= lastBackoff {
			return lastBackoff
		}
	}
	return d
}

// rest is how much of the wait is left: it is counted from the pods that are
// there, so a restart of the loop does not forget it. Failures before a success
// do not count.
func (t *tally) rest(now time.Time) time.Duration {
	type end struct {
		at     time.Time
		failed bool
	}
	var ends []end
	for _, pod := range t.ended {
		ends = append(ends, end{finished(pod), pod.Status.Phase != corev1.PodSucceeded})
	}
	slices.SortFunc(ends, func(a, b end) int { return a.at.Compare(b.at) })
	failures, last := 0, time.Time{}
	for _, e := range ends {
		if !e.failed {
			failures = 0
			continue
		}
		failures++
		last = e.at
	}
	return max(0, backoff(failures)-now.Sub(last))
}

// finished is when a pod ended, as far as can be told.
func finished(pod *corev1.Pod) time.Time {
	var at time.Time
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated == nil {
			at = time.Time{}
			break
		}
		if end := c.State.Terminated.FinishedAt.Time; end.After(at) {
			at = end
		}
	}
	if !at.IsZero() {
		return at
	}
	if c := podbatch.Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if pod.DeletionTimestamp != nil {
		at = pod.DeletionTimestamp.Time
		if pod.DeletionGracePeriodSeconds != nil {
			at = at.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
		return at
	}
	return pod.CreationTimestamp.Time
}
