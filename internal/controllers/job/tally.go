package job

import (
	"math"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// noIndex is that of a pod that has none, or none that counts.
const noIndex = -1

// tally is what the pods of a Job come to.
type tally struct {
	active      []*corev1.Pod // run or will run
	ready       int32
	terminating int32
	ended       []*corev1.Pod // failed or succeeded; deleted ones too where those count as failed

	held      map[types.UID]bool // pods with our finalizer
	succeeded []*corev1.Pod      // held, and in no count yet
	failed    []*corev1.Pod      // held, and in no count yet

	done, broken indexes // of an Indexed Job: the new pods included
	// last is, by index, the failed pod that carries on the count of failures
	// of an index that is to be tried again: its finalizer stays until its
	// successor is there. Of a Job with backoffLimitPerIndex.
	last map[int]*corev1.Pod
	// sumFailed is how many pods have failed, new ones included, those that a
	// policy ignores left out.
	sumFailed, sumSucceeded int32

	// behind is the revision of the latest of the pods that have lost their
	// finalizer, when there are more of them than the Job has counted: the
	// picture of the Job may be older than that of the pods. "": all is well.
	behind string
}

func isIndexed(j *batchv1.Job) bool {
	return j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion
}

func perIndex(j *batchv1.Job) bool { return j.Spec.BackoffLimitPerIndex != nil }

// onlyFailed: a pod is replaced only when it has failed, not when it is on its
// way out.
func onlyFailed(j *batchv1.Job) bool {
	return j.Spec.PodFailurePolicy != nil || j.Spec.PodReplacementPolicy != nil && *j.Spec.PodReplacementPolicy == batchv1.Failed
}

func suspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

func isHeld(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// withoutHold are a pod's finalizers but ours.
func withoutHold(pod *corev1.Pod) []string {
	return slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == batchv1.JobTrackingFinalizer })
}

// failed tells whether a pod counts as failed. One that was deleted does, for
// it may never get to say so, unless its replacement waits until it does.
func (w *world) failed(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed ||
		pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded && !onlyFailed(w.job)
}

// completions of an Indexed Job; 0 for others.
func completions(j *batchv1.Job) int {
	if !isIndexed(j) || j.Spec.Completions == nil {
		return 0
	}
	return int(*j.Spec.Completions)
}

// indexOf is a pod's completion index, noIndex when it has none below limit.
func indexOf(pod *corev1.Pod, limit int) int {
	i, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || i < 0 || i >= limit {
		return noIndex
	}
	return i
}

// failuresBefore are the failures of a pod's index before it, those that count
// and those that a policy ignores.
func failuresBefore(pod *corev1.Pod) (counted, ignored int) {
	read := func(key string) int {
		n, err := strconv.Atoi(pod.Annotations[key])
		if err != nil || n < 0 || n > math.MaxInt32 {
			return 0
		}
		return n
	}
	return read(batchv1.JobIndexFailureCountAnnotation), read(batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// tally goes through the pods once.
func (w *world) tally() *tally {
	j := w.job
	limit := completions(j)
	st := &j.Status
	t := &tally{held: map[types.UID]bool{}}
	counted := map[types.UID]bool{}
	if u := st.UncountedTerminatedPods; u != nil {
		for _, uid := range u.Succeeded {
			counted[uid] = true
		}
		for _, uid := range u.Failed {
			counted[uid] = true
		}
		t.sumSucceeded, t.sumFailed = int32(len(u.Succeeded)), int32(len(u.Failed))
	}
	t.sumSucceeded += st.Succeeded
	t.sumFailed += st.Failed
	var done, broken []int
	var free loose
	for _, pod := range w.pods {
		held := isHeld(pod)
		if held {
			t.held[pod.UID] = true
		}
		ended, failed := controllers.Ended(pod), w.failed(pod)
		switch {
		case ended:
		case pod.DeletionTimestamp != nil || w.memo.pods.Doomed(pod):
			t.terminating++
		default:
			t.active = append(t.active, pod)
			if controllers.Ready(pod) {
				t.ready++
			}
		}
		if ended || failed && held {
			t.ended = append(t.ended, pod)
		}
		i := indexOf(pod, limit)
		if isIndexed(j) && i == noIndex {
			continue
		}
		if ended && !held {
			verdict := judge(j.Spec.PodFailurePolicy, pod)
			free.add(pod, i, verdict.counted)
			if perIndex(j) && failed && w.breaks(pod, verdict) {
				free.broken = append(free.broken, i)
			}
		}
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			if held && !counted[pod.UID] {
				t.succeeded = append(t.succeeded, pod)
				t.sumSucceeded++
			}
			// A pod whose finalizer somebody took away before it was counted
			// does not count.
			if isIndexed(j) && held {
				done = append(done, i)
			}
		case failed && held:
			verdict := judge(j.Spec.PodFailurePolicy, pod)
			if !counted[pod.UID] {
				t.failed = append(t.failed, pod)
				if verdict.counted {
					t.sumFailed++
				}
			}
			if perIndex(j) && w.breaks(pod, verdict) {
				broken = append(broken, i)
			}
		}
	}
	if isIndexed(j) {
		t.done = parseIndexes(st.CompletedIndexes, limit).with(done)
		t.sumSucceeded = int32(t.done.total())
	}
	if perIndex(j) {
		if st.FailedIndexes != nil {
			t.broken = parseIndexes(*st.FailedIndexes, limit)
		}
		t.broken = t.broken.with(broken)
		t.last = w.lastOfIndex(t, limit)
	}
	if free.more(t, isIndexed(j)) {
		t.behind = free.revision
	}
	return t
}

// loose sums up the pods that have ended and lost their finalizer.
type loose struct {
	failed, succeeded int32
	indexes           []int // of those that succeeded
	broken            []int // of those that were their index's last chance
	revision          string
}

func (l *loose) add(pod *corev1.Pod, index int, counted bool) {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		l.succeeded++
		l.indexes = append(l.indexes, index)
	case counted:
		l.failed++
	}
	if client.Later(pod.ResourceVersion, l.revision) {
		l.revision = pod.ResourceVersion
	}
}

// more tells whether there are more than are counted.
func (l *loose) more(t *tally, indexed bool) bool {
	if l.failed > t.sumFailed || slices.ContainsFunc(l.broken, func(i int) bool { return !t.broken.has(i) }) {
		return true
	}
	if !indexed {
		return l.succeeded > t.sumSucceeded
	}
	return slices.ContainsFunc(l.indexes, func(i int) bool { return !t.done.has(i) })
}

// breaks tells whether a failed pod was its index's last chance.
func (w *world) breaks(pod *corev1.Pod, v judgement) bool {
	if v.action == batchv1.PodFailurePolicyActionFailIndex {
		return true
	}
	before, _ := failuresBefore(pod)
	return v.counted && before >= int(*w.job.Spec.BackoffLimitPerIndex)
}

// lastOfIndex finds the last failed pod of each index that is to be tried
// again and is not yet.
func (w *world) lastOfIndex(t *tally, limit int) map[int]*corev1.Pod {
	running := map[int]bool{}
	for _, pod := range t.active {
		running[indexOf(pod, limit)] = true
	}
	last := map[int]*corev1.Pod{}
	for _, pod := range w.pods {
		i := indexOf(pod, limit)
		if i == noIndex || !t.held[pod.UID] || !w.failed(pod) || running[i] || t.done.has(i) || t.broken.has(i) {
			continue
		}
		if had := last[i]; had == nil || attempts(had) < attempts(pod) ||
			attempts(had) == attempts(pod) && (finished(had).Before(finished(pod)) || finished(had).Equal(finished(pod)) && had.UID < pod.UID) {
			last[i] = pod
		}
	}
	return last
}

func attempts(pod *corev1.Pod) int {
	counted, ignored := failuresBefore(pod)
	return counted + ignored
}
