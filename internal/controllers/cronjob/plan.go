// Package cronjob is the loop that makes Jobs at the times that CronJobs
// claim, and forgets old ones. plan.go and schedule.go decide, without I/O;
// controller.go reads the views, writes and comes back. One write a step.
//
// The name of a Job is that of its CronJob and the minute it was due, so no
// time is served twice. Which Jobs run, which time was served last and which
// success was the last is read from the Jobs themselves; a crash between
// making a Job and writing the status loses nothing.
//
// However many times were missed, one Job is made for the latest of them,
// unless startingDeadlineSeconds says that it is too late for it.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/.
package cronjob

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/controllers/job"
)

var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// world is what the loop sees of one CronJob.
type world struct {
	cron *batchv1.CronJob // shared: copied before it is changed
	jobs []*batchv1.Job   // owned, in no order
	now  time.Time
}

// step is what is next: at most one write.
type step struct {
	status *batchv1.CronJobStatus
	remove *batchv1.Job
	create *batchv1.Job

	on, wait string        // what is waited for
	after    time.Duration // until the next time; 0: there is none
	events   []event       // for people
}

type event struct{ reason, text string }

func (s *step) warn(reason, format string, args ...any) {
	s.events = append(s.events, event{reason, fmt.Sprintf(format, args...)})
}

func plan(w world) step {
	if st := w.status(); !equality.Semantic.DeepEqual(st, &w.cron.Status) {
		return step{status: st}
	}
	if w.cron.DeletionTimestamp != nil {
		return step{}
	}
	if old := w.surplus(); old != nil {
		return step{remove: old}
	}
	if w.cron.Spec.Suspend != nil && *w.cron.Spec.Suspend {
		return step{}
	}
	return w.schedule()
}

// status is what the CronJob's ought to be, by its Jobs.
func (w *world) status() *batchv1.CronJobStatus {
	st := w.cron.Status.DeepCopy()
	jobs := slices.Clone(w.jobs)
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return cmp.Compare(a.Name, b.Name) })
	var active []corev1.ObjectReference
	for _, j := range jobs {
		if due, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation]); err == nil {
			if st.LastScheduleTime == nil || due.After(st.LastScheduleTime.Time) {
				st.LastScheduleTime = &metav1.Time{Time: due}
			}
		}
		end, done := job.IsFinished(j)
		switch {
		case !done:
			active = append(active, w.reference(j))
		case end.Type == batchv1.JobComplete && j.Status.CompletionTime != nil:
			if st.LastSuccessfulTime == nil || j.Status.CompletionTime.After(st.LastSuccessfulTime.Time) {
				st.LastSuccessfulTime = j.Status.CompletionTime
			}
		}
	}
	st.Active = active
	return st
}

// reference to a Job, as it was when the Job was first seen.
func (w *world) reference(j *batchv1.Job) corev1.ObjectReference {
	for _, ref := range w.cron.Status.Active {
		if ref.UID == j.UID {
			return ref
		}
	}
	return corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job",
		Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion,
	}
}

// surplus is the oldest of the ended Jobs that are more than the history holds;
// nil when there is none.
func (w *world) surplus() *batchv1.Job {
	ended := map[batchv1.JobConditionType][]*batchv1.Job{}
	for _, j := range w.jobs {
		if end, done := job.IsFinished(j); done && j.DeletionTimestamp == nil {
			ended[end.Type] = append(ended[end.Type], j)
		}
	}
	for _, h := range []struct {
		jobs  []*batchv1.Job
		limit *int32
	}{
		{ended[batchv1.JobComplete], w.cron.Spec.SuccessfulJobsHistoryLimit},
		{ended[batchv1.JobFailed], w.cron.Spec.FailedJobsHistoryLimit},
	} {
		if h.limit == nil || len(h.jobs) <= int(*h.limit) {
			continue
		}
		return slices.MinFunc(h.jobs, func(a, b *batchv1.Job) int {
			return cmp.Or(started(a).Compare(started(b)), cmp.Compare(a.Name, b.Name))
		})
	}
	return nil
}

func started(j *batchv1.Job) time.Time {
	if j.Status.StartTime != nil {
		return j.Status.StartTime.Time
	}
	return j.CreationTimestamp.Time
}

// schedule decides on the time that is due, if one is.
func (w *world) schedule() (s step) {
	spec := &w.cron.Spec
	times, zone, err := parse(spec)
	if err != nil {
		s.warn("UnparseableSchedule", "unparseable schedule: %q : %v", spec.Schedule, err)
		s.wait = err.Error()
		return s
	}
	if next := times.Next(w.now); !next.IsZero() {
		s.after = next.Sub(w.now)
	}
	due, missed := latest(times, w.earliest(), w.now)
	if missed > manyMissed {
		s.warn("TooManyMissedTimes", "too many missed start times: %d. Set or decrease .spec.startingDeadlineSeconds or check clock skew", missed)
	}
	if due.IsZero() {
		return s
	}
	active := w.active()
	switch {
	case len(active) == 0 || spec.ConcurrencyPolicy == batchv1.AllowConcurrent:
	case spec.ConcurrencyPolicy == batchv1.ForbidConcurrent:
		s.warn("JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
		s.on, s.wait = "Job "+active[0].Namespace+"/"+active[0].Name, "it has to end before the next may start"
		return s
	default:
		for _, j := range active {
			if j.DeletionTimestamp == nil {
				return step{remove: j}
			}
		}
	}
	s.create = w.newJob(due, zone)
	return s
}

// manyMissed times are worth telling a person.
const manyMissed = 100

// earliest is the time after which a start was missed at most.
func (w *world) earliest() time.Time {
	from := w.cron.CreationTimestamp.Time
	if last := w.cron.Status.LastScheduleTime; last != nil {
		from = last.Time
	}
	if d := w.cron.Spec.StartingDeadlineSeconds; d != nil {
		// A time that is just as old as the deadline may still be served.
		if limit := w.now.Add(-time.Duration(*d)*time.Second - time.Nanosecond); limit.After(from) {
			from = limit
		}
	}
	return from
}

func (w *world) active() (jobs []*batchv1.Job) {
	for _, j := range w.jobs {
		if _, done := job.IsFinished(j); !done {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return cmp.Compare(a.Name, b.Name) })
	return jobs
}

// newJob is the Job of a time.
func (w *world) newJob(due time.Time, zone *time.Location) *batchv1.Job {
	t := w.cron.Spec.JobTemplate.DeepCopy()
	annotations := maps.Clone(t.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = due.In(zone).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", w.cron.Name, due.Unix()/60), Namespace: w.cron.Namespace,
			Labels: t.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.cron, kind)},
		},
		Spec: t.Spec,
	}
}
