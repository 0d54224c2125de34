package job

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

// settle is a copy of the status, in which the pods that have lost their
// finalizer have become mere numbers.
func (w *world) settle(t *tally) *batchv1.JobStatus {
	st := w.job.Status.DeepCopy()
	if st.UncountedTerminatedPods == nil {
		st.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	u := st.UncountedTerminatedPods
	drop := func(uids []types.UID, sum *int32) []types.UID {
		return slices.DeleteFunc(uids, func(uid types.UID) bool {
			if t.held[uid] {
				return false
			}
			*sum++
			return true
		})
	}
	u.Succeeded = drop(u.Succeeded, &st.Succeeded)
	u.Failed = drop(u.Failed, &st.Failed)
	return st
}

// count enters into st the pods that have ended and are in no count yet, at
// most podbatch.Limit at once, and returns those whose finalizer may go. It may
// go only once what count entered is written.
func (w *world) count(st *batchv1.JobStatus, t *tally, ending *batchv1.JobCondition) (free []*corev1.Pod) {
	j, u := w.job, st.UncountedTerminatedPods
	fresh := map[types.UID]bool{}
	for _, pods := range [][]*corev1.Pod{t.succeeded, t.failed} {
		for _, pod := range pods {
			fresh[pod.UID] = true
		}
	}
	limit := completions(j)
	had := parseIndexes(st.CompletedIndexes, limit)
	pods := slices.Clone(w.pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(indexOf(a, limit)-indexOf(b, limit), cmp.Compare(a.UID, b.UID))
	})
	failing := ending != nil && ending.Type == batchv1.JobFailureTarget
	succeeding := ending != nil && !failing
	var done []int
	for _, pod := range pods {
		i := indexOf(pod, limit)
		if !t.held[pod.UID] || !w.releasable(pod, t, ending) || i != noIndex && t.last[i] == pod && ending == nil {
			continue
		}
		full := len(u.Succeeded)+len(u.Failed)+len(done) >= podbatch.Limit
		switch {
		case isIndexed(j) && i == noIndex:
		case pod.Status.Phase == corev1.PodSucceeded:
			switch {
			case isIndexed(j) && !had.has(i):
				if full {
					continue
				}
				done = append(done, i)
			case !isIndexed(j) && fresh[pod.UID]:
				if full {
					continue
				}
				u.Succeeded = append(u.Succeeded, pod.UID)
			}
		case succeeding && pod.Status.Phase != corev1.PodFailed:
			// A Job that has succeeded stops the pods it needs no more.
		case (fresh[pod.UID] || failing && !slices.Contains(u.Failed, pod.UID)) && judge(j.Spec.PodFailurePolicy, pod).counted:
			// A Job that fails takes all with it that had not succeeded.
			if full {
				continue
			}
			u.Failed = append(u.Failed, pod.UID)
		}
		free = append(free, pod)
	}
	if isIndexed(j) {
		all := had.with(done)
		st.CompletedIndexes, st.Succeeded = all.String(), int32(all.total())
	}
	if perIndex(j) {
		text := t.broken.String()
		st.FailedIndexes = &text
	}
	return free
}

// releasable tells whether a pod is, or will soon be, of no more interest.
func (w *world) releasable(pod *corev1.Pod, t *tally, ending *batchv1.JobCondition) bool {
	switch {
	case w.job.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || w.failed(pod):
		return true
	case ending == nil:
		return false
	}
	// Its deletion has begun, and nobody waits for how it ends.
	return pod.DeletionTimestamp != nil
}

// uncounted tells whether st counts pods or indexes that the written status
// does not: that has to be written before anything else is done.
func (w *world) uncounted(st *batchv1.JobStatus) bool {
	old := &w.job.Status
	was := old.UncountedTerminatedPods
	if was == nil {
		was = &batchv1.UncountedTerminatedPods{}
	}
	more := func(now, before []types.UID) bool {
		return slices.ContainsFunc(now, func(uid types.UID) bool { return !slices.Contains(before, uid) })
	}
	u := st.UncountedTerminatedPods
	failed := func(s *batchv1.JobStatus) string {
		if s.FailedIndexes == nil {
			return ""
		}
		return *s.FailedIndexes
	}
	return more(u.Succeeded, was.Succeeded) || more(u.Failed, was.Failed) ||
		st.CompletedIndexes != old.CompletedIndexes || failed(st) != failed(old)
}

// resume starts the clock of a Job that goes on after it was suspended, and
// tells whether it does.
func (w *world) resume(st *batchv1.JobStatus) bool {
	c := condition(st, batchv1.JobSuspended)
	if suspended(w.job) || c == nil || c.Status != corev1.ConditionTrue || w.job.DeletionTimestamp != nil {
		return false
	}
	now := metav1.NewTime(w.now).Rfc3339Copy()
	*c = *newCondition(batchv1.JobSuspended, reasonResumed, "Job resumed", w.now)
	c.Status = corev1.ConditionFalse
	if st.StartTime == nil {
		st.StartTime = &now
	}
	return true
}

// Reasons of the Suspended condition.
const (
	reasonSuspended = "JobSuspended"
	reasonResumed   = "JobResumed"
)

// describe enters what can be seen at present.
func (w *world) describe(st *batchv1.JobStatus, t *tally) {
	st.Active, st.Ready, st.Terminating = int32(len(t.active)), &t.ready, &t.terminating
	ending := condition(st, batchv1.JobFailureTarget) != nil || condition(st, batchv1.JobSuccessCriteriaMet) != nil
	if st.StartTime == nil && (!suspended(w.job) || ending) {
		now := metav1.NewTime(w.now).Rfc3339Copy()
		st.StartTime = &now
	}
	if suspended(w.job) && !ending && w.job.DeletionTimestamp == nil {
		st.StartTime = nil // it starts anew when it is resumed
		c := newCondition(batchv1.JobSuspended, reasonSuspended, "Job suspended", w.now)
		if old := condition(st, batchv1.JobSuspended); old == nil {
			st.Conditions = append(st.Conditions, *c)
		} else if old.Status != corev1.ConditionTrue {
			*old = *c
		}
	}
}

// differs tells whether st has to be written at all.
func (w *world) differs(st *batchv1.JobStatus) bool {
	return !equality.Semantic.DeepEqual(st, &w.job.Status)
}

// settled tells whether the status is as this loop left it, as far as counts
// go. Otherwise somebody else may have counted pods, and a picture of pods that
// is older than the Job may show them with the finalizer that they have lost.
func (w *world) settled() bool {
	a, b := &w.job.Status, w.memo.wrote
	if b == nil {
		return a.UncountedTerminatedPods == nil // nobody has counted anything
	}
	return a.Succeeded == b.Succeeded && a.Failed == b.Failed && a.CompletedIndexes == b.CompletedIndexes &&
		equality.Semantic.DeepEqual(a.UncountedTerminatedPods, b.UncountedTerminatedPods)
}
