package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newJob(parallelism, completions int32, edits ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: "default", UID: "job", ResourceVersion: "7"},
		Spec: batchv1.JobSpec{
			Parallelism: &parallelism, Completions: &completions, BackoffLimit: new(int32(6)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			}},
		},
		Status: batchv1.JobStatus{
			StartTime: &metav1.Time{Time: now.Add(-time.Hour)}, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
		},
	}
	for _, edit := range edits {
		edit(j)
	}
	return j
}

func indexed(j *batchv1.Job)   { j.Spec.CompletionMode = new(batchv1.IndexedCompletion) }
func queue(j *batchv1.Job)     { j.Spec.Completions = nil }
func onFailure(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }
func limit(n int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n }
}
func met(t batchv1.JobConditionType) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, *newCondition(t, "Because", "so", now))
	}
}

// pod is one that runs and is held by the finalizer, changed by edits.
func pod(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: "5",
			Finalizers: []string{batchv1.JobTrackingFinalizer}, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func succeeded(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
func failed(p *corev1.Pod)    { exited(1, time.Hour)(p) }
func leaving(p *corev1.Pod)   { p.DeletionTimestamp = &metav1.Time{Time: now} }
func free(p *corev1.Pod)      { p.Finalizers = nil }
func exited(code int32, ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(now.Add(-ago))}}}}
	}
}
func index(i, failures int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(i), batchv1.JobIndexFailureCountAnnotation: fmt.Sprint(failures)}
	}
}

func in(j *batchv1.Job, pods ...*corev1.Pod) world {
	return world{job: j, pods: pods, now: now, memo: &memory{}}
}

func names(pods []*corev1.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// tells writes a step down: "create 2", "remove [a]", "free [a]", "status".
func tell(s step) string {
	switch {
	case s.status != nil:
		line := fmt.Sprintf("status %d %d", s.status.Succeeded, s.status.Failed)
		if u := s.status.UncountedTerminatedPods; len(u.Succeeded)+len(u.Failed) > 0 {
			line += fmt.Sprintf(" uncounted %v %v", u.Succeeded, u.Failed)
		}
		if s.status.CompletedIndexes != "" {
			line += " indexes " + s.status.CompletedIndexes
		}
		if f := s.status.FailedIndexes; f != nil && *f != "" {
			line += " failed " + *f
		}
		for _, c := range s.status.Conditions {
			line += fmt.Sprintf(" %s=%s", c.Type, c.Reason)
		}
		return line
	case len(s.free) > 0:
		return fmt.Sprint("free ", names(s.free))
	case len(s.remove) > 0:
		return fmt.Sprint("remove ", names(s.remove))
	case len(s.create) > 0 && s.create[0].index == noIndex:
		return fmt.Sprint("create ", len(s.create))
	case len(s.create) > 0:
		line := "create"
		for _, sl := range s.create {
			line += fmt.Sprintf(" %d", sl.index)
		}
		return line
	}
	return "nothing"
}

func TestPlan(t *testing.T) {
	suspend := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	replaceFailed := func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = new(batchv1.Failed) }
	deleted := func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: now} }
	deadline := func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(600)) }
	restarted := func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}} }
	uncounted := func(uids ...types.UID) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.UncountedTerminatedPods.Failed = uids }
	}
	rows := []struct {
		name  string
		world world
		want  string
	}{
		{"first pods", in(newJob(2, 5)), "create 2"},
		{"not more than are missing", in(newJob(5, 2)), "create 2"},
		{"a work queue", in(newJob(3, 0, queue)), "create 3"},
		{"a work queue that is empty", in(newJob(3, 0, queue, func(j *batchv1.Job) { j.Status.Succeeded = 1 }), pod("a")), "nothing"},
		{"a work queue that is done", in(newJob(3, 0, queue), pod("a", succeeded)), "status 0 0 uncounted [a] [] SuccessCriteriaMet=CompletionsReached"},
		{"no completions at all", in(newJob(1, 0)), "status 0 0 SuccessCriteriaMet=CompletionsReached"},
		{"one has succeeded", in(newJob(2, 5), pod("a", succeeded), pod("b")), "status 0 0 uncounted [a] []"},
		{"what is counted is let go", in(newJob(2, 5, uncounted("a")), pod("a", failed), pod("b")), "free [a]"},
		{"all succeeded", in(newJob(1, 1), pod("a", succeeded)), "status 0 0 uncounted [a] [] SuccessCriteriaMet=CompletionsReached"},
		{"pods that were deleted count as failed", in(newJob(1, 1), pod("a", leaving)), "status 0 0 uncounted [] [a]"},
		{"unless failed ones only are replaced", in(newJob(1, 1, replaceFailed), pod("a", leaving)), "nothing"},
		{"too many", in(newJob(1, 5), pod("a"), pod("b", leaving, free)), "nothing"},
		{"surplus is let go of first", in(newJob(0, 5), pod("a")), "free [a]"},
		{"then deleted", in(newJob(0, 5), pod("a", free)), "remove [a]"},
		{"suspended", in(newJob(2, 5, suspend), pod("a"), pod("b")), "free [a b]"},
		{"resumed", in(newJob(1, 5, met(batchv1.JobSuspended)), pod("a")), "status 0 0 Suspended=JobResumed"},
		{"too many failures", in(newJob(1, 1, limit(1)), pod("a", failed), pod("b", failed)), "status 0 0 uncounted [] [a b] FailureTarget=BackoffLimitExceeded"},
		{"restarts count as failures", in(newJob(1, 1, limit(2), onFailure), pod("a", restarted)), "status 0 0 FailureTarget=BackoffLimitExceeded"},
		{"too late", in(newJob(1, 1, deadline), pod("a")), "status 0 0 FailureTarget=DeadlineExceeded"},
		{"a Job that fails takes its pods with it", in(newJob(1, 1, met(batchv1.JobFailureTarget)), pod("a")), "remove [a]"},
		{"and counts them", in(newJob(1, 1, met(batchv1.JobFailureTarget), replaceFailed), pod("a", leaving)), "status 0 0 uncounted [] [a] FailureTarget=Because"},
		{"a Job that has succeeded does not", in(newJob(1, 1, met(batchv1.JobSuccessCriteriaMet)), pod("a", leaving)), "free [a]"},
		{"a finished Job", in(newJob(1, 1, met(batchv1.JobFailed)), pod("a")), "nothing"},
		{"a Job that goes lets all go", in(newJob(2, 2, deleted), pod("a")), "free [a]"},
		{"and makes none", in(newJob(2, 2, deleted)), "nothing"},
		{"indexes", in(newJob(2, 5, indexed), pod("a", index(1, 0))), "create 0"},
		{"indexes that have succeeded", in(newJob(3, 5, indexed), pod("a", index(0, 0), succeeded), pod("b", index(3, 0), succeeded)), "status 2 0 indexes 0,3"},
		{"an index twice", in(newJob(3, 2, indexed), pod("a", index(0, 0)), pod("b", index(0, 0)), pod("c", index(1, 0))), "free [a]"},
		{"an index that is none", in(newJob(3, 2, indexed), pod("a", index(2, 0)), pod("b", index(1, 0))), "free [a]"},
		{"pods that nobody held", in(newJob(2, 2), pod("a", free)), "remove [a]"},
		{"a picture of the Job that is too old", in(newJob(2, 2), pod("a", succeeded, free)), "nothing"},
	}
	for _, row := range rows {
		if got := tell(plan(row.world)); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// A pod that has lost its finalizer and is counted becomes one more in the
// sums, once.
func TestSettle(t *testing.T) {
	j := newJob(1, 5, func(j *batchv1.Job) {
		j.Status.Succeeded, j.Status.Failed = 1, 2
		j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a", "gone"}, Failed: []types.UID{"b"}}
	})
	s := plan(in(j, pod("a", succeeded), pod("b", failed, free)))
	if s.idle == nil || s.idle.Succeeded != 2 || s.idle.Failed != 3 || len(s.idle.UncountedTerminatedPods.Succeeded) != 1 {
		t.Errorf("status is %+v", s.idle)
	}
}

func TestFinish(t *testing.T) {
	for _, row := range []struct{ first, last batchv1.JobConditionType }{
		{batchv1.JobFailureTarget, batchv1.JobFailed}, {batchv1.JobSuccessCriteriaMet, batchv1.JobComplete},
	} {
		j := newJob(1, 1, met(row.first))
		s := plan(in(j, pod("a", succeeded, free), pod("b", leaving, free)))
		if s.idle != nil && condition(s.idle, row.last) != nil {
			t.Errorf("%s comes while a pod is still there", row.last)
		}
		j.Status.Succeeded = 1
		s = plan(in(j, pod("a", succeeded, free)))
		if s.idle == nil || condition(s.idle, row.last) == nil || condition(s.idle, row.last).Reason != "Because" {
			t.Errorf("status is %+v, want %s", s.idle, row.last)
		}
		if complete := s.idle.CompletionTime != nil; complete != (row.last == batchv1.JobComplete) {
			t.Errorf("%s has completionTime: %t", row.last, complete)
		}
	}
}

func TestBackoffDoubles(t *testing.T) {
	for n, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second} {
		if got := backoff(n); got != want {
			t.Errorf("after %d failures %v, want %v", n, got, want)
		}
	}
	if got := backoff(30); got != 10*time.Minute {
		t.Errorf("the longest is %v", got)
	}
	j := newJob(1, 1)
	j.Status.Failed = 2
	s := plan(in(j, pod("a", exited(1, 30*time.Second), free), pod("b", exited(1, 5*time.Second), free)))
	if tell(s) != "nothing" || s.after != 15*time.Second {
		t.Errorf("%s after %v, want nothing for 15s", tell(s), s.after)
	}
}

// An index that fails is tried again, later each time, until it has failed
// once more than it may.
func TestPerIndex(t *testing.T) {
	perIndex := func(j *batchv1.Job) { indexed(j); j.Spec.BackoffLimitPerIndex = new(int32(1)) }
	s := plan(in(newJob(2, 2, perIndex, func(j *batchv1.Job) { j.Status.FailedIndexes = new("") }), pod("a", index(0, 0), failed), pod("b", index(1, 0))))
	if tell(s) != "create 0" || s.create[0].counted != 1 || s.create[0].after != "a" {
		t.Errorf("%s %+v, want 0 with one failure", tell(s), s.create)
	}
	s = plan(in(newJob(2, 2, perIndex), pod("a", index(0, 0), failed), pod("c", index(0, 1), failed), pod("b", index(1, 0))))
	if want := "status 0 0 uncounted [] [a c] failed 0"; tell(s) != want {
		t.Errorf("%s, want %s", tell(s), want)
	}
	most := func(j *batchv1.Job) { perIndex(j); j.Spec.MaxFailedIndexes = new(int32(0)) }
	s = plan(in(newJob(2, 2, most), pod("c", index(0, 1), failed)))
	if want := "status 0 0 uncounted [] [c] failed 0 FailureTarget=MaxFailedIndexesExceeded"; tell(s) != want {
		t.Errorf("%s, want %s", tell(s), want)
	}
	s = plan(in(newJob(2, 2, perIndex), pod("c", index(0, 1), failed), pod("b", index(1, 0), succeeded)))
	if want := "status 1 0 uncounted [] [c] indexes 1 failed 0 FailureTarget=FailedIndexes"; tell(s) != want {
		t.Errorf("%s, want %s", tell(s), want)
	}
	s = plan(in(newJob(1, 2, perIndex, func(j *batchv1.Job) { j.Status.FailedIndexes = new("") }), pod("a", index(0, 0), exited(1, 4*time.Second))))
	if tell(s) != "nothing" || s.after != 6*time.Second {
		t.Errorf("%s after %v, want nothing for 6s", tell(s), s.after)
	}
}

// A pod that was its index's last chance loses its finalizer only once the
// index is written down as failed: a Job that says otherwise is an old picture.
func TestBrokenIndexIsBehind(t *testing.T) {
	j := newJob(1, 2, indexed)
	j.Spec.BackoffLimitPerIndex, j.Status.FailedIndexes, j.Status.Failed = new(int32(1)), new(""), 5
	w := in(j, pod("a", index(0, 0), failed, free), pod("b", index(0, 1), failed, free))
	if s := plan(w); s.behind == "" || len(s.create) > 0 {
		t.Errorf("%s, behind %q", tell(s), s.behind)
	}
	if w.abreast = true; tell(plan(w)) != "create 0" {
		t.Errorf("%s, when the Job is known to be as young", tell(plan(w)))
	}
	j.Status.FailedIndexes = new("0")
	if w.abreast = false; tell(plan(w)) != "create 1" {
		t.Errorf("%s, when it is written down", tell(plan(w)))
	}
}

// An Indexed Job of 5,000 is counted in portions and leaves no finalizer.
func TestManyPods(t *testing.T) {
	j := newJob(5000, 5000, indexed)
	var pods []*corev1.Pod
	for i := range 5000 {
		pods = append(pods, pod(fmt.Sprint("p", i), index(i, 0), succeeded))
	}
	steps := 0
	for ; ; steps++ {
		s := plan(in(j, pods...))
		switch {
		case steps > 100:
			t.Fatal("it does not end")
		case s.status != nil:
			j.Status = *s.status
		case len(s.free) > 0:
			for _, p := range s.free {
				p.Finalizers = nil
			}
		case s.idle != nil:
			j.Status = *s.idle
		}
		if _, done := IsFinished(j); done {
			break
		}
	}
	if j.Status.Succeeded != 5000 || j.Status.CompletedIndexes != "0-4999" {
		t.Errorf("%d have succeeded: %s", j.Status.Succeeded, j.Status.CompletedIndexes)
	}
	for _, p := range pods {
		if isHeld(p) {
			t.Fatalf("pod %s keeps the finalizer", p.Name)
		}
	}
}

func TestPodsOfAnIndex(t *testing.T) {
	j := newJob(1, 2, indexed)
	j.Spec.BackoffLimitPerIndex = new(int32(3))
	w := in(j)
	p := w.newPods([]slot{{index: 1, counted: 2, ignored: 1, after: "x"}})[0]
	if p.Annotations[batchv1.JobCompletionIndexAnnotation] != "1" || p.Labels[batchv1.JobCompletionIndexAnnotation] != "1" ||
		p.Annotations[batchv1.JobIndexFailureCountAnnotation] != "2" || p.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] != "1" {
		t.Errorf("annotations %v, labels %v", p.Annotations, p.Labels)
	}
	if p.Spec.Hostname != "work-1" || p.GenerateName != "work-1-" || !isHeld(p) || p.Spec.Containers[0].Env[0].Name != indexEnv {
		t.Errorf("pod is %+v", p)
	}
	if len(j.Spec.Template.Spec.Containers[0].Env) != 0 {
		t.Error("the Job itself was changed")
	}
	if again := w.newPods([]slot{{index: 1, after: "x"}})[0]; again.Name != p.Name {
		t.Errorf("asked again the name is %s, not %s", again.Name, p.Name)
	}
}

// The next pod of an index has another name than the one that is gone.
func TestNextOfAnIndex(t *testing.T) {
	w := in(newJob(1, 2, indexed))
	next := func() string {
		w.remember()
		return w.newPods([]slot{{index: 1}})[0].Name
	}
	first := next()
	w.pods = []*corev1.Pod{pod("a", index(1, 0), leaving)}
	after := next()
	w.pods = nil
	if gone := next(); gone == first || gone != after || next() != after {
		t.Errorf("the first is %s, the next %s, and %s once the first is gone", first, after, gone)
	}
	w.job.Status.CompletedIndexes = "1"
	if next(); w.memo.indexes.Len() != 0 {
		t.Error("an index that is done is remembered")
	}
}

// Copies of the loop that see a Job without indexes at different times give the
// pod that is missing the same name.
func TestNextWithoutIndex(t *testing.T) {
	empty := in(newJob(3, 5))
	names := empty.numbered(8)
	counted := func(succeeded, failed int32, uncounted ...types.UID) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Succeeded, j.Status.Failed = succeeded, failed
			j.Status.UncountedTerminatedPods.Failed = uncounted
		}
	}
	loose := func(p *corev1.Pod) { p.Finalizers = nil }
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	done := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	run := func(numbers ...int) (pods []*corev1.Pod) {
		for _, n := range numbers {
			pods = append(pods, pod(names[n]))
		}
		return pods
	}
	for name, row := range map[string]struct {
		job  func(*batchv1.Job)
		pods []*corev1.Pod
		want int // the number of the next pod
	}{
		"none":                       {counted(0, 0), nil, 0},
		"all are seen":               {counted(0, 0), run(0, 1, 2), 3},
		"the second is not seen yet": {counted(0, 0), run(0, 2), 1},
		// The first of three has failed, and its successor is the fourth.
		"it has failed":               {counted(0, 0), append(run(1, 2), pod(names[0], failed)), 3},
		"its failure is noted":        {counted(0, 0, types.UID(names[0])), append(run(1, 2), pod(names[0], failed)), 3},
		"it is let go":                {counted(0, 0, types.UID(names[0])), append(run(1, 2), pod(names[0], failed, loose)), 3},
		"it is gone":                  {counted(0, 0, types.UID(names[0])), run(1, 2), 3},
		"it is counted":               {counted(0, 1), append(run(1, 2), pod(names[0], failed, loose)), 3},
		"it is counted and gone":      {counted(0, 1), run(1, 2), 3},
		"and another has succeeded":   {counted(1, 1), append(run(2), pod(names[1], done, loose)), 3},
		"the fourth is there, too":    {counted(1, 1), append(run(2, 3), pod(names[1], done, loose)), 4},
		"and both are gone":           {counted(1, 1), run(2, 3), 4},
		"one was adopted":             {counted(0, 0), append(run(0), pod("found")), 1},
		"one adopted is counted":      {counted(1, 0), append(run(0), pod("found", done, loose)), 1},
		"one is taken away uncounted": {counted(0, 0), append(run(0, 1), pod(names[2], loose, leaving)), 3},
	} {
		w := in(newJob(3, 5, row.job), row.pods...)
		if got := slices.Index(names, w.numbered(1)[0]); got != row.want {
			t.Errorf("%s: number %d, want %d", name, got, row.want)
		}
		// A picture in another order is no other.
		slices.Reverse(w.pods)
		if two := w.numbered(2); slices.Index(names, two[0]) != row.want || two[1] == two[0] {
			t.Errorf("%s: %v, of %v", name, two, names)
		}
	}
}
