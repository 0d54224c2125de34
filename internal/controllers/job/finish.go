package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ending is the condition that decides how the Job ends, recorded or due; nil
// as long as it goes on. With it comes how long until time alone decides.
func (w *world) ending(t *tally) (c *batchv1.JobCondition, after time.Duration) {
	j := w.job
	for _, t := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget} {
		if c := condition(&j.Status, t); c != nil && c.Status == corev1.ConditionTrue {
			return c, 0
		}
	}
	fail := func(reason, message string) *batchv1.JobCondition {
		return newCondition(batchv1.JobFailureTarget, reason, message, w.now)
	}
	for _, pod := range t.failed {
		if v := judge(j.Spec.PodFailurePolicy, pod); v.action == batchv1.PodFailurePolicyActionFailJob {
			return fail(batchv1.JobReasonPodFailurePolicy, v.message), 0
		}
	}
	if t.sumFailed > *j.Spec.BackoffLimit || w.restartedTooOften(t) {
		return fail(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"), 0
	}
	if limit := j.Spec.ActiveDeadlineSeconds; limit != nil && !suspended(j) && j.Status.StartTime != nil {
		after = time.Duration(*limit)*time.Second - w.now.Sub(j.Status.StartTime.Time)
		if after <= 0 {
			return fail(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"), 0
		}
	}
	if broken := t.broken.total(); broken > 0 {
		if most := j.Spec.MaxFailedIndexes; most != nil && broken > int(*most) {
			return fail(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes"), 0
		}
		if broken+t.done.total() >= completions(j) {
			return fail(batchv1.JobReasonFailedIndexes, "Job has failed indexes"), 0
		}
	}
	if message, ok := succeeds(j.Spec.SuccessPolicy, completions(j), t.done); ok && isIndexed(j) {
		return newCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, message, w.now), 0
	}
	if w.reached(t) {
		return newCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods", w.now), 0
	}
	return nil, after
}

// reached tells whether as many pods have succeeded as are claimed. Where no
// number is claimed, one success says that the work is done, once all others
// have finished as well.
func (w *world) reached(t *tally) bool {
	if w.job.Spec.Completions == nil {
		return t.sumSucceeded > 0 && len(t.active) == 0
	}
	return t.sumSucceeded >= *w.job.Spec.Completions
}

// restartedTooOften counts restarts of containers, which is how pods fail that
// the kubelet restarts by itself.
func (w *world) restartedTooOften(t *tally) bool {
	if w.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var restarts int32
	for _, pod := range t.active {
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for _, c := range statuses {
				restarts += c.RestartCount
			}
		}
	}
	limit := *w.job.Spec.BackoffLimit
	return restarts > 0 && restarts >= limit
}

// finish adds Failed or Complete to st, when all is counted and no pod is left
// that runs.
func (w *world) finish(st *batchv1.JobStatus, t *tally, ending *batchv1.JobCondition) {
	if ending == nil || condition(&w.job.Status, ending.Type) == nil {
		return // to be recorded first
	}
	u := st.UncountedTerminatedPods
	if len(t.active) > 0 || t.terminating > 0 || len(t.held) > 0 || len(u.Succeeded) > 0 || len(u.Failed) > 0 {
		return
	}
	last := batchv1.JobFailed
	if ending.Type == batchv1.JobSuccessCriteriaMet {
		last = batchv1.JobComplete
	}
	c := newCondition(last, ending.Reason, ending.Message, w.now)
	if last == batchv1.JobComplete {
		st.CompletionTime = &c.LastTransitionTime
	}
	st.Conditions = append(st.Conditions, *c)
}

func condition(st *batchv1.JobStatus, t batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range st.Conditions {
		if st.Conditions[i].Type == t {
			return &st.Conditions[i]
		}
	}
	return nil
}

func newCondition(t batchv1.JobConditionType, reason, message string, now time.Time) *batchv1.JobCondition {
	at := metav1.NewTime(now).Rfc3339Copy()
	return &batchv1.JobCondition{
		Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		LastProbeTime: at, LastTransitionTime: at,
	}
}
