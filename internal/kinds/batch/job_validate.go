package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

// Limits of jobs. Those of many completions keep the lists of indexes in a
// status short enough to be stored.
const (
	maxManagedBy        = 63
	maxIndexParallelism = 100_000
	maxFailedIndexes    = 100_000
	manyCompletions     = 100_000
	maxManyParallelism  = 10_000
	maxManyFailed       = 10_000
)

func validateJob(j *batchv1.Job) field.ErrorList {
	var c check.Errors
	validateGenerated(&c, j)
	validateWholeSpec(&c, &j.Spec, field.NewPath("spec"))
	if n := strategy.Count(j.Spec.Completions); indexed(&j.Spec) && n > 0 {
		// The index becomes a part of the pod's host name.
		if last := fmt.Sprintf("%s-%d", j.Name, n-1); len(validation.IsDNS1123Label(last)) > 0 {
			c.Invalid(field.NewPath("metadata"), "name", j.Name, "will not able to create pod with invalid DNS label: "+last)
		}
	}
	return c.List
}

func indexed(spec *batchv1.JobSpec) bool {
	return spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
}

// validateGenerated wants the labels that generateSelector makes: a user who
// set one of them otherwise would have pods that belong to another job.
func validateGenerated(c *check.Errors, j *batchv1.Job) {
	if m := j.Spec.ManualSelector; m != nil && *m || j.Spec.Selector == nil {
		return
	}
	if j.UID == "" {
		c.Required(field.NewPath("metadata"), "uid", "")
	}
	all := labels.Set{}
	for _, want := range [...]struct{ key, value string }{
		{legacyUIDLabel, string(j.UID)}, {legacyNameLabel, j.Name},
		{batchv1.ControllerUidLabel, string(j.UID)}, {batchv1.JobNameLabel, j.Name},
	} {
		all[want.key] = want.value
		path, detail := field.NewPath("spec", "template", "metadata", "labels").Key(want.key), "must be '"+want.value+"'"
		if have, ok := j.Spec.Template.Labels[want.key]; !ok {
			c.Required(path, "", detail)
		} else if have != want.value {
			c.Invalid(path, "", j.Spec.Template.Labels, detail)
		}
	}
	if sel, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !sel.Matches(all) {
		c.Invalid(field.NewPath("spec"), "selector", j.Spec.Selector, "`selector` not auto-generated")
	}
}

func validateWholeSpec(c *check.Errors, spec *batchv1.JobSpec, path *field.Path) {
	validateSpec(c, spec, path)
	if spec.Selector == nil {
		c.Required(path, "selector", "")
	} else {
		c.Add(metavalidation.ValidateLabelSelector(spec.Selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector")))
	}
	if sel, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !sel.Matches(labels.Set(spec.Template.Labels)) {
		c.Invalid(path.Child("template", "metadata"), "labels", spec.Template.Labels, "`selector` does not match template `labels`")
	}
}

// validateSpec checks what a job and the template of one have in common.
func validateSpec(c *check.Errors, spec *batchv1.JobSpec, path *field.Path) {
	c.NonNegative(path, "parallelism", strategy.Count(spec.Parallelism))
	c.NonNegative(path, "completions", strategy.Count(spec.Completions))
	if spec.ActiveDeadlineSeconds != nil {
		c.NonNegative(path, "activeDeadlineSeconds", *spec.ActiveDeadlineSeconds)
	}
	c.NonNegative(path, "backoffLimit", strategy.Count(spec.BackoffLimit))
	c.NonNegative(path, "ttlSecondsAfterFinished", strategy.Count(spec.TTLSecondsAfterFinished))
	c.NonNegative(path, "backoffLimitPerIndex", strategy.Count(spec.BackoffLimitPerIndex))
	c.NonNegative(path, "maxFailedIndexes", strategy.Count(spec.MaxFailedIndexes))
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		c.Required(path, "backoffLimitPerIndex", "when maxFailedIndexes is specified")
	}
	if m := spec.ManagedBy; m != nil {
		c.Add(validation.IsDomainPrefixedPath(path.Child("managedBy"), *m))
		if len(*m) > maxManagedBy {
			c.TooLong(path, "managedBy", maxManagedBy)
		}
	}
	if spec.CompletionMode != nil {
		check.Among(c, path, "completionMode", *spec.CompletionMode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	}
	validateIndexed(c, spec, path)
	validateFailurePolicy(c, spec, path.Child("podFailurePolicy", "rules"))
	if spec.SuccessPolicy != nil {
		if indexed(spec) {
			validateSuccessPolicy(c, spec, path.Child("successPolicy", "rules"))
		} else {
			c.Invalid(path, "successPolicy", *spec.SuccessPolicy, "requires indexed completion mode")
		}
	}
	if p := spec.PodReplacementPolicy; p != nil {
		if spec.PodFailurePolicy != nil {
			check.Among(c, path, "podReplacementPolicy", *p, batchv1.Failed)
		} else {
			check.Among(c, path, "podReplacementPolicy", *p, batchv1.Failed, batchv1.TerminatingOrFailed)
		}
	}
	core.ValidatePodTemplateSpec(c, &spec.Template, path.Child("template"))
	validateRestartPolicy(c, spec, path.Child("template", "spec"))
}

func validateIndexed(c *check.Errors, spec *batchv1.JobSpec, path *field.Path) {
	const onlyIndexed = "requires indexed completion mode"
	if spec.CompletionMode == nil || *spec.CompletionMode == batchv1.NonIndexedCompletion {
		if n := spec.BackoffLimitPerIndex; n != nil {
			c.Invalid(path, "backoffLimitPerIndex", *n, onlyIndexed)
		}
		if n := spec.MaxFailedIndexes; n != nil {
			c.Invalid(path, "maxFailedIndexes", *n, onlyIndexed)
		}
		return
	}
	if !indexed(spec) {
		return
	}
	atMost := func(name string, n *int32, most int64, detail string) {
		if n != nil && int64(*n) > most {
			c.Invalid(path, name, *n, detail)
		}
	}
	if spec.Completions == nil {
		c.Required(path, "completions", "when completion mode is Indexed")
	}
	atMost("parallelism", spec.Parallelism, maxIndexParallelism, fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", maxIndexParallelism))
	if spec.Completions != nil {
		atMost("maxFailedIndexes", spec.MaxFailedIndexes, int64(*spec.Completions), "must be less than or equal to completions")
	}
	atMost("maxFailedIndexes", spec.MaxFailedIndexes, maxFailedIndexes, fmt.Sprintf("must be less than or equal to %d", maxFailedIndexes))
	if strategy.Count(spec.Completions) <= manyCompletions || spec.BackoffLimitPerIndex == nil {
		return
	}
	if spec.MaxFailedIndexes == nil {
		c.Required(path, "maxFailedIndexes", fmt.Sprintf("must be specified when completions is above %d", manyCompletions))
	}
	const detail = "must be less than or equal to %d when completions are above %d and used with backoff limit per index"
	atMost("parallelism", spec.Parallelism, maxManyParallelism, fmt.Sprintf(detail, maxManyParallelism, manyCompletions))
	atMost("maxFailedIndexes", spec.MaxFailedIndexes, maxManyFailed, fmt.Sprintf(detail, maxManyFailed, manyCompletions))
}

func validateRestartPolicy(c *check.Errors, spec *batchv1.JobSpec, path *field.Path) {
	switch policy := spec.Template.Spec.RestartPolicy; policy {
	case corev1.RestartPolicyAlways, "": // what a template gets that names none
		c.Required(path, "restartPolicy", `valid values: "OnFailure", "Never"`)
	case corev1.RestartPolicyNever:
	default:
		if policy == corev1.RestartPolicyOnFailure && spec.PodFailurePolicy != nil {
			c.Invalid(path, "restartPolicy", policy, `only "Never" is supported when podFailurePolicy is specified`)
			return
		}
		check.Among(c, path, "restartPolicy", policy, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	}
}

func validateJobUpdate(j, old *batchv1.Job) field.ErrorList {
	var c check.Errors
	spec, was, path := &j.Spec, &old.Spec, field.NewPath("spec")
	validateWholeSpec(&c, spec, path)
	kept := func(name string, now, before any) {
		if !apiequality.Semantic.DeepEqual(now, before) {
			c.Immutable(path, name, now)
		}
	}
	if !indexed(spec) {
		kept("completions", spec.Completions, was.Completions)
	} else if !apiequality.Semantic.DeepEqual(spec.Completions, was.Completions) && spec.Completions != nil && strategy.Count(spec.Parallelism) != int64(*spec.Completions) {
		c.Invalid(path, "completions", *spec.Completions, "can only be modified in tandem with spec.parallelism")
	}
	kept("selector", spec.Selector, was.Selector)
	kept("template", &spec.Template, movable(&spec.Template, old))
	kept("completionMode", spec.CompletionMode, was.CompletionMode)
	kept("podFailurePolicy", spec.PodFailurePolicy, was.PodFailurePolicy)
	kept("backoffLimitPerIndex", spec.BackoffLimitPerIndex, was.BackoffLimitPerIndex)
	kept("managedBy", spec.ManagedBy, was.ManagedBy)
	kept("successPolicy", spec.SuccessPolicy, was.SuccessPolicy)
	return c.List
}

// movable is the old template with all that may change while no pod of it is
// there made equal to the new one: a queue decides where a suspended job runs,
// and with how much.
func movable(now *corev1.PodTemplateSpec, old *batchv1.Job) *corev1.PodTemplateSpec {
	if old.Spec.Suspend == nil || !*old.Spec.Suspend {
		return &old.Spec.Template
	}
	out := old.Spec.Template.DeepCopy()
	if old.Status.StartTime == nil || is(&old.Status, batchv1.JobSuspended) {
		var affinity *corev1.NodeAffinity
		if now.Spec.Affinity != nil {
			affinity = now.Spec.Affinity.NodeAffinity
		}
		if out.Spec.Affinity == nil && now.Spec.Affinity != nil {
			out.Spec.Affinity = &corev1.Affinity{}
		}
		if out.Spec.Affinity != nil {
			out.Spec.Affinity.NodeAffinity = affinity
			if now.Spec.Affinity == nil && *out.Spec.Affinity == (corev1.Affinity{}) {
				out.Spec.Affinity = nil
			}
		}
		out.Spec.NodeSelector, out.Spec.Tolerations, out.Spec.SchedulingGates = now.Spec.NodeSelector, now.Spec.Tolerations, now.Spec.SchedulingGates
		out.Annotations, out.Labels = now.Annotations, now.Labels
		resized(out.Spec.Containers, now.Spec.Containers)
		resized(out.Spec.InitContainers, now.Spec.InitContainers)
	}
	return out
}

// resized gives containers the resources of others with the same names.
func resized(list, from []corev1.Container) {
	for i := range list {
		if i < len(from) && from[i].Name == list[i].Name {
			list[i].Resources = from[i].Resources
		}
	}
}
