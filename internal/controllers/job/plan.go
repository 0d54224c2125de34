// Package job is the loop that runs pods until as many have succeeded as a Job
// claims, or too many have failed. plan.go, tally.go, finish.go, status.go,
// policy.go, backoff.go and indexes.go decide, without I/O; controller.go and
// pods.go read the views, write and come back.
//
// No pod is counted twice and none is missed. Each carries a finalizer until
// it is counted:
//
//	pod ended --status: its uid is in uncountedTerminatedPods-->
//	          --pod: the finalizer is taken-->
//	          --status: the uid becomes one more in succeeded or failed
//
// A crash between any two of these is taken up where it was. The last step
// needs a picture of the pods that is no older than the Job: see settled. Of
// an Indexed Job the succeeded indexes stand for the uids.
//
// Nor is one made too many, that would be counted as well, when two copies of
// the loop run at once: an index or a number makes a pod's name, so that what
// both make is one pod. See newPods.
//
// A Job ends in two steps as well: first FailureTarget or SuccessCriteriaMet,
// which decides, then, when no pod runs any more, Failed or Complete.
//
// Orphans is a second loop, that takes the finalizer from pods that no Job will
// ever count.
//
// Where upstream remembers failures in the process to delay the next pod, this
// loop counts them from the pods that are there.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/job/.
package job

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

// ControllerName in spec.managedBy is this loop.
const ControllerName = "kubernetes.io/job-controller"

// world is what the loop sees of one Job.
type world struct {
	job  *batchv1.Job  // shared: copied before it is changed
	pods []*corev1.Pod // owned, in no order
	now  time.Time
	memo *memory
	// abreast: the picture of the Job is as young as that of the pods.
	abreast bool
}

// memory is what the loop knows of one Job that the views may not show yet. It
// is lost in a crash.
type memory struct {
	pods podbatch.Memory
	// salt makes new names when one was taken by a stranger.
	salt uint64
	// indexes remember the pods that were last seen of those still to be done.
	indexes podbatch.Places[int]
	// wrote is the status that this loop wrote last.
	wrote *batchv1.JobStatus
}

// step is what is next: one of the fields up to create, else nothing.
type step struct {
	status *batchv1.JobStatus
	free   []*corev1.Pod // of our finalizer
	remove []*corev1.Pod
	create []slot
	// idle is the status for the case that nothing else can be done now.
	idle  *batchv1.JobStatus
	after time.Duration // until time alone calls for more; 0: never
	// on and wait say what has to happen before the Job can end.
	on, wait string
	// behind, when not "", is a revision that the picture of the Job ought to
	// have reached before anything else is done.
	behind string
}

// slot is a pod to be made.
type slot struct {
	index            int // noIndex: any
	counted, ignored int // failures of the index so far
	after            types.UID
}

// IsFinished tells whether a Job has ended, and how.
func IsFinished(j *batchv1.Job) (*batchv1.JobCondition, bool) {
	for _, t := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if c := condition(&j.Status, t); c != nil && c.Status == corev1.ConditionTrue {
			return c, true
		}
	}
	return nil, false
}

// isOurs tells whether a Job is for this loop.
func isOurs(j *batchv1.Job) bool {
	return j.Spec.ManagedBy == nil || *j.Spec.ManagedBy == ControllerName
}

func plan(w world) step {
	if _, done := IsFinished(w.job); done {
		return step{}
	}
	t := w.tally()
	if t.behind != "" && !w.abreast {
		return step{behind: t.behind}
	}
	st := w.settle(t)
	ending, after := w.ending(t)
	free := w.count(st, t, ending)
	urgent := w.uncounted(st)
	if ending != nil && condition(st, ending.Type) == nil {
		st.Conditions = append(st.Conditions, *ending)
		urgent = true
	}
	if w.resume(st) {
		urgent = true
	}
	w.finish(st, t, ending)
	w.describe(st, t)
	s := step{after: after}
	s.on, s.wait = w.waits(t, ending)
	if w.differs(st) {
		s.idle = st
	}
	switch {
	case urgent:
		s.status, s.idle = st, nil
	case len(free) > 0:
		s.free = free[:min(len(free), podbatch.Limit)]
	case w.job.DeletionTimestamp != nil:
	case ending != nil:
		s.remove = t.active[:min(len(t.active), podbatch.Limit)]
	default:
		w.manage(t, &s)
	}
	return s
}

// waits says what an unfinished Job waits for, when there is nothing to do.
func (w *world) waits(t *tally, ending *batchv1.JobCondition) (on, why string) {
	var first *corev1.Pod
	for _, pod := range w.pods {
		if !controllers.Ended(pod) && (first == nil || pod.Name < first.Name) {
			first = pod
		}
	}
	if first != nil {
		on = "Pod " + first.Namespace + "/" + first.Name
	}
	switch {
	case ending != nil:
		return on, "the Job ends: its last pods have to be gone"
	case suspended(w.job):
		return "", "" // as claimed
	case first == nil:
		return "", "a pod has failed: the next is made after a pause"
	case w.job.Spec.Completions == nil:
		return on, fmt.Sprintf("it has to end: %d run", len(t.active))
	}
	return on, fmt.Sprintf("it has to end: %d run, %d of %d have succeeded", len(t.active), t.sumSucceeded, *w.job.Spec.Completions)
}

// manage keeps as many pods running as there ought to be.
func (w *world) manage(t *tally, s *step) {
	// A pod without the finalizer will not be counted when it succeeds: it is
	// one that was to be deleted, or that somebody meddled with.
	var loose []*corev1.Pod
	for _, pod := range t.active {
		if !t.held[pod.UID] {
			loose = append(loose, pod)
		}
	}
	if len(loose) > 0 {
		s.remove = loose[:min(len(loose), podbatch.Limit)]
		return
	}
	active := len(t.active)
	want := w.wanted(t)
	surplus := w.surplus(t, max(0, active-want))
	if len(surplus) > 0 {
		// Taken out of the count first, so that they do not count as failed.
		s.free = surplus[:min(len(surplus), podbatch.Limit)]
		return
	}
	missing := want - active
	if onlyFailed(w.job) {
		missing -= int(t.terminating)
	}
	if missing = min(missing, podbatch.Limit); missing <= 0 {
		return
	}
	if !perIndex(w.job) {
		if rest := t.rest(w.now); rest > 0 {
			s.look(rest)
			return
		}
	}
	if !isIndexed(w.job) {
		s.create = slices.Repeat([]slot{{index: noIndex}}, missing)
		return
	}
	for _, i := range w.pending(t, missing) {
		next := slot{index: i}
		if last := t.last[i]; last != nil {
			if rest := backoff(attempts(last)+1) - w.now.Sub(finished(last)); rest > 0 {
				s.look(rest)
				continue
			}
			next.after = last.UID
			next.counted, next.ignored = failuresBefore(last)
			if judge(w.job.Spec.PodFailurePolicy, last).counted {
				next.counted++
			} else {
				next.ignored++
			}
		}
		s.create = append(s.create, next)
	}
}

// look asks for another look after d, if none is due before.
func (s *step) look(d time.Duration) {
	if s.after == 0 || d < s.after {
		s.after = d
	}
}

// wanted is how many pods ought to run.
func (w *world) wanted(t *tally) int {
	j := w.job
	parallelism := int(*j.Spec.Parallelism)
	switch {
	case suspended(j):
		return 0
	case j.Spec.Completions != nil:
		return max(0, min(int(*j.Spec.Completions)-int(t.sumSucceeded), parallelism))
	case t.sumSucceeded > 0: // a work queue is empty: those that run finish
		return len(t.active)
	}
	return parallelism
}

// surplus picks at least n active pods to take away: first those of an index
// that does not count or runs already.
func (w *world) surplus(t *tally, n int) []*corev1.Pod {
	active := slices.Clone(t.active)
	if n > 0 || isIndexed(w.job) {
		w.memo.pods.LeastWorth(active, w.now)
	}
	var surplus []*corev1.Pod
	if isIndexed(w.job) {
		running := map[int]bool{}
		limit := completions(w.job)
		var rest []*corev1.Pod
		for _, pod := range slices.Backward(active) { // the one worth most is kept
			if i := indexOf(pod, limit); i == noIndex || running[i] {
				surplus = append(surplus, pod)
			} else {
				running[i] = true
				rest = append(rest, pod)
			}
		}
		slices.Reverse(rest)
		active = rest
	}
	if more := n - len(surplus); more > 0 {
		surplus = append(surplus, active[:more]...)
	}
	return surplus
}

// pending are the lowest n indexes that neither run nor have ended.
func (w *world) pending(t *tally, n int) []int {
	limit := completions(w.job)
	busy := map[int]bool{}
	for _, pod := range w.pods {
		if controllers.Ended(pod) {
			continue
		}
		if onlyFailed(w.job) || pod.DeletionTimestamp == nil && !w.memo.pods.Doomed(pod) {
			busy[indexOf(pod, limit)] = true
		}
	}
	var found []int
	for i := 0; i < limit && len(found) < n; i++ {
		if !busy[i] && !t.done.has(i) && !t.broken.has(i) {
			found = append(found, i)
		}
	}
	return found
}
