package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
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
		Subresources:             map[string]*kinds.Subresource{"status": split.Status()},
		Columns:                  cronJobColumns(),
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
