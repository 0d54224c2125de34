package batch

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func job() *kinds.Kind {
	split := strategy.Counted[batchv1.Job]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "jobs"}, Kind: "Job", Singular: "job",
		Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/jobs/",
		Versions:                 []kinds.Version{strategy.Version[batchv1.Job, batchv1.JobList](v1, defaultJob)},
		AllowUnconditionalUpdate: true,
		PrepareCreate: strategy.PrepareCreate(func(j *batchv1.Job) {
			j.Status, j.Generation = batchv1.JobStatus{}, 1
			j.Spec.Scheduling = nil // of a feature that is alpha
			generateSelector(j)
			labelAsPods(j)
		}),
		PrepareUpdate:  split.PrepareUpdate,
		Validate:       strategy.Validate(validateJob),
		ValidateUpdate: strategy.ValidateUpdate(validateJobUpdate),
		Warnings: strategy.Warnings(func(j, old *batchv1.Job) []string {
			var before *corev1.PodTemplateSpec
			if old != nil {
				before = &old.Spec.Template
			}
			return jobWarnings(j.Name, &j.Spec, before, field.NewPath("spec"))
		}),
		Subresources: map[string]*kinds.Subresource{"status": {
			Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateJobStatus),
		}},
		SelectableFields: strategy.Fields(func(j *batchv1.Job) fields.Set {
			return fields.Set{"status.successful": strconv.Itoa(int(j.Status.Succeeded))}
		}),
		FieldNames: []string{"status.successful"},
		Columns:    jobColumns(),
	}
}

// Labels that pods of jobs had before there were domains in front.
const (
	legacyUIDLabel  = "controller-uid"
	legacyNameLabel = "job-name"
)

// generateSelector makes a job select the pods that carry its UID, and give it
// to those it makes, unless its owner took that over.
func generateSelector(j *batchv1.Job) {
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		return
	}
	if j.Spec.Template.Labels == nil {
		j.Spec.Template.Labels = map[string]string{}
	}
	for key, value := range map[string]string{
		legacyUIDLabel: string(j.UID), batchv1.ControllerUidLabel: string(j.UID),
		legacyNameLabel: j.Name, batchv1.JobNameLabel: j.Name,
	} {
		if _, ok := j.Spec.Template.Labels[key]; !ok {
			j.Spec.Template.Labels[key] = value
		}
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	if _, ok := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !ok {
		metav1.AddLabelToSelector(j.Spec.Selector, batchv1.ControllerUidLabel, string(j.UID))
	}
}

func defaultJob(j *batchv1.Job) {
	labelAsPods(j)
	defaultJobSpec(&j.Spec)
}

// labelAsPods gives a job without labels those of its pods.
func labelAsPods(j *batchv1.Job) {
	if len(j.Labels) == 0 {
		j.Labels = maps.Clone(j.Spec.Template.Labels)
	}
}

// defaultJobSpec fills in a job.
func defaultJobSpec(spec *batchv1.JobSpec) {
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions, spec.Parallelism = new(int32(1)), new(int32(1))
	}
	if spec.Parallelism == nil {
		spec.Parallelism = new(int32(1))
	}
	if spec.BackoffLimit == nil {
		spec.BackoffLimit = new(int32(6))
		if spec.BackoffLimitPerIndex != nil {
			*spec.BackoffLimit = math.MaxInt32
		}
	}
	if spec.CompletionMode == nil {
		spec.CompletionMode = new(batchv1.NonIndexedCompletion)
	}
	if spec.Suspend == nil {
		spec.Suspend = new(false)
	}
	if spec.PodReplacementPolicy == nil {
		spec.PodReplacementPolicy = new(batchv1.TerminatingOrFailed)
		if spec.PodFailurePolicy != nil {
			*spec.PodReplacementPolicy = batchv1.Failed
		}
	}
	if spec.ManualSelector == nil {
		spec.ManualSelector = new(false)
	}
	if spec.PodFailurePolicy != nil {
		for i := range spec.PodFailurePolicy.Rules {
			for j := range spec.PodFailurePolicy.Rules[i].OnPodConditions {
				if p := &spec.PodFailurePolicy.Rules[i].OnPodConditions[j]; p.Status == "" {
					p.Status = corev1.ConditionTrue
				}
			}
		}
	}
	core.DefaultPodTemplateSpec(&spec.Template)
}

func jobColumns() []kinds.Column {
	status := batchv1.JobStatus{}.SwaggerDoc()
	columns := []kinds.Column{
		strategy.Name(),
		strategy.Column("Status", "string", status["conditions"], func(j *batchv1.Job) any { return jobStatus(j) }),
		strategy.Column("Completions", "string", status["succeeded"], func(j *batchv1.Job) any { return completions(j) }),
		strategy.Column("Duration", "string", "Time required to complete the job.", func(j *batchv1.Job) any {
			switch {
			case j.Status.StartTime == nil:
				return ""
			case j.Status.CompletionTime == nil:
				return duration.HumanDuration(time.Since(j.Status.StartTime.Time))
			}
			return duration.HumanDuration(j.Status.CompletionTime.Sub(j.Status.StartTime.Time))
		}),
		strategy.Age(),
	}
	columns = append(columns, strategy.TemplateColumns(func(j *batchv1.Job) *corev1.PodSpec { return &j.Spec.Template.Spec })...)
	return append(columns, strategy.SelectorColumn(batchv1.JobSpec{}.SwaggerDoc()["selector"], func(j *batchv1.Job) *metav1.LabelSelector { return j.Spec.Selector }))
}

// jobWarnings of a job, or of the template of one.
func jobWarnings(name string, spec *batchv1.JobSpec, before *corev1.PodTemplateSpec, path *field.Path) []string {
	out := core.WorkloadWarnings(name, &spec.Template, before, path.Child("template"))
	if indexed(spec) && strategy.Count(spec.Completions) > manyCompletions && strategy.Count(spec.Parallelism) > maxManyParallelism {
		out = append(out, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return out
}

func jobStatus(j *batchv1.Job) string {
	switch {
	case is(&j.Status, batchv1.JobComplete):
		return "Complete"
	case is(&j.Status, batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case is(&j.Status, batchv1.JobSuspended):
		return "Suspended"
	case is(&j.Status, batchv1.JobFailureTarget):
		return "FailureTarget"
	case is(&j.Status, batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func completions(j *batchv1.Job) string {
	if j.Spec.Completions != nil {
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	}
	if n := strategy.Count(j.Spec.Parallelism); n > 1 {
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, n)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}
