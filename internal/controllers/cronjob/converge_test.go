package cronjob_test

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/cronjob"
	"github.com/setpoint-project/setpoint/internal/controllers/job"
)

// Each time is served once. Jobs that have no work end at once, those that have
// do not end at all, for nobody runs their pods.
func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller { return []controllers.Controller{cronjob.New(o)} },
		Others: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{job.New(o), job.NewOrphans(o)}
		},
		Runs: 100,
		Start: func(w *controllertest.World) {
			policies := []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent}
			w.Create(client.CronJobs, &batchv1.CronJob{
				ObjectMeta: metav1.ObjectMeta{Name: "tick", Namespace: "default"},
				Spec: batchv1.CronJobSpec{
					Schedule: "0 * * * *", TimeZone: new("UTC"), ConcurrencyPolicy: policies[w.Rand.IntN(3)],
					SuccessfulJobsHistoryLimit: new(w.Rand.Int32N(3)),
					JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
						Completions: new(w.Rand.Int32N(2)),
						Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
							RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
						}},
					}},
				},
			})
		},
		Meanwhile: func(w *controllertest.World) {
			time.Sleep(3*time.Hour + 30*time.Minute)
			w.Edit(client.CronJobs, "default", "tick", func(obj client.Object) { obj.(*batchv1.CronJob).Spec.Suspend = new(true) })
		},
		End: func(w *controllertest.World) string {
			text := w.Lines(client.CronJobs, func(obj client.Object) string {
				st := obj.(*batchv1.CronJob).Status
				return fmt.Sprintf("%d active, last %v, success %t", len(st.Active), st.LastScheduleTime.UTC(), st.LastSuccessfulTime != nil)
			})
			return text + w.Lines(client.Jobs, client.Object.GetName)
		},
		Check: func(w *controllertest.World) error {
			if n := w.Done("create", client.Jobs); n > 3 {
				return fmt.Errorf("%d Jobs were made for 3 times", n)
			}
			return nil
		},
	})
}
