package batch

import (
	"strings"
	"time"
	_ "time/tzdata" // time zones are checked on machines that have none

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func cronJob() *kinds.Kind {
	split := strategy.Counted[batchv1.CronJob]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "cronjobs"}, Kind: "CronJob", Singular: "cronjob",
		ShortNames: []string{"cj"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/cronjobs/",
		Versions:                 []kinds.Version{strategy.Version[batchv1.CronJob, batchv1.CronJobList](v1, defaultCronJob)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateCronJob),
		ValidateUpdate: strategy.ValidateUpdate(func(j, old *batchv1.CronJob) field.ErrorList {
			return validateCronJobSpec(&j.Spec, &old.Spec)
		}),
		Warnings:     strategy.Warnings(cronJobWarnings),
		Subresources: map[string]*kinds.Subresource{"status": split.Status()},
		Columns:      cronJobColumns(),
	}
}

func defaultCronJob(c *batchv1.CronJob) {
	spec := &c.Spec
	if spec.ConcurrencyPolicy == "" {
		spec.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	if spec.Suspend == nil {
		spec.Suspend = new(false)
	}
	if spec.SuccessfulJobsHistoryLimit == nil {
		spec.SuccessfulJobsHistoryLimit = new(int32(3))
	}
	if spec.FailedJobsHistoryLimit == nil {
		spec.FailedJobsHistoryLimit = new(int32(1))
	}
	defaultJobTemplate(&spec.JobTemplate.Spec)
}

// defaultJobTemplate fills in only the pods: the rest is filled in when a job
// is made of the template.
func defaultJobTemplate(spec *batchv1.JobSpec) { core.DefaultPodTemplateSpec(&spec.Template) }

// maxCronJobName leaves room for what the jobs' names have more: "-" and ten
// digits of time.
const maxCronJobName = validation.DNS1035LabelMaxLength - 11

func validateCronJob(j *batchv1.CronJob) field.ErrorList {
	c := check.Errors{List: validateCronJobSpec(&j.Spec, nil)}
	if len(j.Name) > maxCronJobName {
		c.Invalid(field.NewPath("metadata"), "name", j.Name, "must be no more than 52 characters")
	}
	return c.List
}

func validateCronJobSpec(spec, old *batchv1.CronJobSpec) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	if spec.Schedule == "" {
		c.Required(path, "schedule", "")
	} else {
		validateSchedule(&c, spec, old != nil && strings.Contains(old.Schedule, "TZ"), path)
	}
	if spec.StartingDeadlineSeconds != nil {
		c.NonNegative(path, "startingDeadlineSeconds", *spec.StartingDeadlineSeconds)
	}
	if zone := spec.TimeZone; zone != nil && (old == nil || old.TimeZone == nil || *old.TimeZone != *zone) {
		validateTimeZone(&c, *zone, path)
	}
	check.OneOf(&c, path, "concurrencyPolicy", spec.ConcurrencyPolicy, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	template, p := &spec.JobTemplate.Spec, path.Child("jobTemplate", "spec")
	validateSpec(&c, template, p)
	if template.Selector != nil {
		c.Invalid(p, "selector", template.Selector, "`selector` will be auto-generated")
	}
	if m := template.ManualSelector; m != nil && *m {
		c.Add(field.ErrorList{field.NotSupported(p.Child("manualSelector"), m, []string{"nil", "false"})})
	}
	c.NonNegative(path, "successfulJobsHistoryLimit", strategy.Count(spec.SuccessfulJobsHistoryLimit))
	c.NonNegative(path, "failedJobsHistoryLimit", strategy.Count(spec.FailedJobsHistoryLimit))
	return c.List
}

// validateSchedule: the parser knows time zones within a schedule, which the
// API has a field for. Those of old stay.
func validateSchedule(c *check.Errors, spec *batchv1.CronJobSpec, zoned bool, path *field.Path) {
	if _, err := cron.ParseStandard(spec.Schedule); err != nil {
		c.Invalid(path, "schedule", spec.Schedule, err.Error())
	}
	if !strings.Contains(spec.Schedule, "TZ") {
		return
	}
	switch {
	case !zoned:
		c.Invalid(path, "schedule", spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	case spec.TimeZone != nil:
		c.Invalid(path, "schedule", spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
	}
}

// validateTimeZone: names are looked up as files, so their form comes first.
// https://data.iana.org/time-zones/theory.html#naming
func validateTimeZone(c *check.Errors, zone string, path *field.Path) {
	if zone == "" {
		c.Invalid(path, "timeZone", zone, "timeZone must be nil or non-empty string")
		return
	}
	for part := range strings.SplitSeq(zone, "/") {
		if !zonePart(part) {
			c.Invalid(path, "timeZone", zone, "unknown time zone "+zone)
			return
		}
	}
	if strings.EqualFold(zone, "Local") {
		c.Invalid(path, "timeZone", zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	if _, err := time.LoadLocation(zone); err != nil {
		c.Invalid(path, "timeZone", zone, err.Error())
	}
}

func zonePart(part string) bool {
	if part == "" || part == "." || part == ".." || part[0] == '-' || len(part) > 14 {
		return false
	}
	return strings.IndexFunc(part, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(".-_+", r))
	}) < 0
}

func cronJobWarnings(j, old *batchv1.CronJob) []string {
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = &old.Spec.JobTemplate.Spec.Template
	}
	out := jobWarnings(j.Name, &j.Spec.JobTemplate.Spec, before, field.NewPath("spec", "jobTemplate", "spec"))
	if strings.Contains(j.Spec.Schedule, "TZ") {
		out = append(out, "cannot use TZ or CRON_TZ in spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones for more details")
	}
	return out
}

// titled is how upstream shows this one boolean.
func titled(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

func cronJobColumns() []kinds.Column {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	columns := []kinds.Column{
		strategy.Name(),
		strategy.Column("Schedule", "string", spec["schedule"], func(c *batchv1.CronJob) any { return c.Spec.Schedule }),
		strategy.Column("Timezone", "string", spec["timeZone"], func(c *batchv1.CronJob) any {
			if c.Spec.TimeZone == nil {
				return "<none>"
			}
			return *c.Spec.TimeZone
		}),
		strategy.Column("Suspend", "boolean", spec["suspend"], func(c *batchv1.CronJob) any {
			if c.Spec.Suspend == nil {
				return "<unset>"
			}
			return titled(*c.Spec.Suspend)
		}),
		strategy.Column("Active", "integer", status["active"], func(c *batchv1.CronJob) any { return int64(len(c.Status.Active)) }),
		strategy.Column("Last Schedule", "string", status["lastScheduleTime"], func(c *batchv1.CronJob) any {
			if c.Status.LastScheduleTime == nil {
				return "<none>"
			}
			return strategy.Since(*c.Status.LastScheduleTime)
		}),
		strategy.Age(),
	}
	columns = append(columns, strategy.TemplateColumns(func(c *batchv1.CronJob) *corev1.PodSpec { return &c.Spec.JobTemplate.Spec.Template.Spec })...)
	return append(columns, strategy.SelectorColumn(batchv1.JobSpec{}.SwaggerDoc()["selector"], func(c *batchv1.CronJob) *metav1.LabelSelector { return c.Spec.JobTemplate.Spec.Selector }))
}
