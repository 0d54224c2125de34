package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func is(s *batchv1.JobStatus, t batchv1.JobConditionType) bool {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t && s.Conditions[i].Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func finished(s *batchv1.JobStatus) bool {
	return is(s, batchv1.JobComplete) || is(s, batchv1.JobFailed)
}

// statusCheck holds a new status of a job against the rules that keep a job
// which ended from being anything but ended. Loops of others may write a job's
// status (spec.managedBy), so the rules are the server's. A rule is asked only
// when something changed that it is about: what is stored already may stay.
type statusCheck struct {
	check.Errors
	path     *field.Path
	job      *batchv1.Job
	now, was *batchv1.JobStatus
}

func validateJobStatus(j, old *batchv1.Job) field.ErrorList {
	s := &statusCheck{path: field.NewPath("status"), job: j, now: &j.Status, was: &old.Status}
	s.counts()
	s.conditions()
	s.times()
	s.ended()
	s.indexes()
	s.transitions()
	return s.List
}

// turned tells whether a condition is another than it was.
func (s *statusCheck) turned(t batchv1.JobConditionType) bool { return is(s.now, t) != is(s.was, t) }

func (s *statusCheck) wrongConditions(detail string) {
	s.Invalid(s.path, "conditions", field.OmitValueType{}, detail)
}

func (s *statusCheck) counts() {
	now := s.now
	s.NonNegative(s.path, "active", int64(now.Active))
	s.NonNegative(s.path, "succeeded", int64(now.Succeeded))
	s.NonNegative(s.path, "failed", int64(now.Failed))
	s.NonNegative(s.path, "ready", strategy.Count(now.Ready))
	s.NonNegative(s.path, "terminating", strategy.Count(now.Terminating))
	if now.UncountedTerminatedPods == nil {
		return
	}
	var seen check.Unique[string]
	path := s.path.Child("uncountedTerminatedPods")
	for i, uid := range now.UncountedTerminatedPods.Succeeded {
		s.uncounted(&seen, string(uid), path.Child("succeeded").Index(i))
	}
	for i, uid := range now.UncountedTerminatedPods.Failed {
		s.uncounted(&seen, string(uid), path.Child("failed").Index(i))
	}
}

func (s *statusCheck) uncounted(seen *check.Unique[string], uid string, path *field.Path) {
	if uid == "" {
		s.Invalid(path, "", uid, "must not be empty")
	} else if seen.Seen(uid) {
		s.Duplicate(path, "", uid)
	}
}

func (s *statusCheck) conditions() {
	complete, failed := is(s.now, batchv1.JobComplete), is(s.now, batchv1.JobFailed)
	target, met := is(s.now, batchv1.JobFailureTarget), is(s.now, batchv1.JobSuccessCriteriaMet)
	if complete && failed && (s.turned(batchv1.JobComplete) || s.turned(batchv1.JobFailed)) {
		s.wrongConditions("cannot set Complete=True and Failed=true conditions")
	}
	if complete && target && (s.turned(batchv1.JobComplete) || s.turned(batchv1.JobFailureTarget)) {
		s.wrongConditions("cannot set Complete=True and FailureTarget=true conditions")
	}
	if failed && !target && (s.turned(batchv1.JobFailed) || s.turned(batchv1.JobFailureTarget)) {
		s.wrongConditions("cannot set Failed=True condition without the FailureTarget=true condition")
	}
	if complete && !met && (s.turned(batchv1.JobComplete) || s.turned(batchv1.JobSuccessCriteriaMet)) {
		s.wrongConditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	}
	if met && failed {
		s.wrongConditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
	}
	if met && target {
		s.wrongConditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	}
	if s.job.Spec.SuccessPolicy != nil && complete && !met {
		s.wrongConditions("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	}
}

func (s *statusCheck) times() {
	now, was := s.now, s.was
	started := !apiequality.Semantic.DeepEqual(now.StartTime, was.StartTime)
	completed := !apiequality.Semantic.DeepEqual(now.CompletionTime, was.CompletionTime)
	complete := is(now, batchv1.JobComplete)
	if completed || s.turned(batchv1.JobComplete) {
		if now.CompletionTime != nil && !complete {
			s.Invalid(s.path, "completionTime", now.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
		}
		if now.CompletionTime == nil && complete {
			s.Required(s.path, "completionTime", "completionTime is required for Complete jobs")
		}
	}
	if (completed || started) && now.StartTime != nil && now.CompletionTime != nil && now.CompletionTime.Before(now.StartTime) {
		s.Invalid(s.path, "completionTime", now.CompletionTime, "completionTime cannot be set before startTime")
	}
	if now.CompletionTime != nil && was.CompletionTime != nil && completed {
		s.Invalid(s.path, "completionTime", now.CompletionTime, "completionTime cannot be mutated")
	}
	suspended := s.job.Spec.Suspend != nil && *s.job.Spec.Suspend
	if was.StartTime != nil && started && !suspended {
		s.Required(s.path, "startTime", "startTime cannot be removed for unsuspended job")
	}
}

// ended: a job that ended has nothing that still runs or is to be counted.
func (s *statusCheck) ended() {
	now, was := s.now, s.was
	if now.Ready != nil && *now.Ready > now.Active && (now.Active != was.Active || !apiequality.Semantic.DeepEqual(now.Ready, was.Ready)) {
		s.Invalid(s.path, "ready", *now.Ready, "cannot set more ready pods than active")
	}
	if !finished(now) {
		return
	}
	turned := !finished(was)
	if now.Active > 0 && (turned || now.Active != was.Active) {
		s.Invalid(s.path, "active", now.Active, "active>0 is invalid for finished job")
	}
	idle := s.job.Spec.Suspend != nil && *s.job.Spec.Suspend && s.job.Spec.Completions != nil && *s.job.Spec.Completions == 0
	if now.StartTime == nil && !idle && (turned || was.StartTime != nil) {
		s.Required(s.path, "startTime", "startTime is required for finished job")
	}
	if u := now.UncountedTerminatedPods; u != nil && len(u.Failed)+len(u.Succeeded) > 0 && (turned || !apiequality.Semantic.DeepEqual(u, was.UncountedTerminatedPods)) {
		s.Invalid(s.path, "uncountedTerminatedPods", u, "uncountedTerminatedPods needs to be empty for finished job")
	}
	if n := strategy.Count(now.Terminating); n > 0 && (turned || n != strategy.Count(was.Terminating)) {
		s.Invalid(s.path, "terminating", now.Terminating, "terminating>0 is invalid for finished job")
	}
}

func (s *statusCheck) indexes() {
	now, was, spec := s.now, s.was, &s.job.Spec
	completed := now.CompletedIndexes != was.CompletedIndexes
	failed := !apiequality.Semantic.DeepEqual(now.FailedIndexes, was.FailedIndexes)
	if !completed && !failed {
		return
	}
	var done, lost []span
	if spec.Completions != nil {
		var err error
		if done, err = parseIndexes(now.CompletedIndexes, *spec.Completions); err != nil && completed {
			s.Invalid(s.path, "completedIndexes", now.CompletedIndexes, "error parsing completedIndexes: "+err.Error())
		}
		if now.FailedIndexes != nil {
			if lost, err = parseIndexes(*now.FailedIndexes, *spec.Completions); err != nil && failed && spec.BackoffLimitPerIndex != nil {
				s.Invalid(s.path, "failedIndexes", *now.FailedIndexes, "error parsing failedIndexes: "+err.Error())
			}
		}
	}
	if completed && now.CompletedIndexes != "" && !indexed(spec) {
		s.Invalid(s.path, "completedIndexes", now.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failed && spec.BackoffLimitPerIndex == nil && now.FailedIndexes != nil {
		s.Invalid(s.path, "failedIndexes", *now.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if err := disjoint(done, lost); err != nil {
		s.Invalid(s.path, "failedIndexes", *now.FailedIndexes, err.Error())
	}
}

// transitions: what ended a job cannot be taken back.
func (s *statusCheck) transitions() {
	now, was := s.now, s.was
	for _, t := range [...]batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if is(was, t) && !is(now, t) {
			s.wrongConditions("cannot disable the terminal " + string(t) + "=True condition")
		}
	}
	if now.Failed < was.Failed {
		s.Invalid(s.path, "failed", now.Failed, "cannot decrease the failed counter")
	}
	// The number of an indexed job's completions may go down, and with it how
	// many of them succeeded.
	resized := indexed(&s.job.Spec) && int64(now.Succeeded) == strategy.Count(s.job.Spec.Completions)
	if now.Succeeded < was.Succeeded && !resized {
		s.Invalid(s.path, "succeeded", now.Succeeded, "cannot decrease the succeeded counter")
	}
	if is(was, batchv1.JobSuccessCriteriaMet) && !is(now, batchv1.JobSuccessCriteriaMet) {
		s.wrongConditions("cannot disable the SuccessCriteriaMet=True condition")
	}
	if is(was, batchv1.JobComplete) && !is(was, batchv1.JobSuccessCriteriaMet) && is(now, batchv1.JobSuccessCriteriaMet) {
		s.wrongConditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
}
