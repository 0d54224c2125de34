package cronjob_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/cronjob"
)

// amid is a client that does something once, before the loop asks for a CronJob
// or makes a Job.
type amid struct {
	client.Interface
	once func()
}

func (c *amid) Get(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error) {
	c.once()
	return c.Interface.Get(ctx, res, namespace, name)
}

func (c *amid) Create(ctx context.Context, res client.Resource, obj client.Object, sub ...string) (client.Object, error) {
	if res == client.Jobs {
		c.once()
	}
	return c.Interface.Create(ctx, res, obj, sub...)
}

// A Job that another copy of the loop has made, that has ended and was cleared
// away before this copy's view shows any of it, is not made again
// (TestConverges, -copies 2 -seed 50093).
func TestMadeByAnother(t *testing.T) {
	for _, already := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := apitest.New(t, apitest.Options{}).Client("tester")
			if _, err := c.Create(t.Context(), client.CronJobs, &batchv1.CronJob{
				ObjectMeta: metav1.ObjectMeta{Name: "tick", Namespace: "default"},
				Spec: batchv1.CronJobSpec{
					Schedule: "0 * * * *", TimeZone: new("UTC"),
					JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
						RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
					}}}},
				},
			}); err != nil {
				t.Fatal(err)
			}
			asked := false
			stop := controllertest.Turn(cronjob.New(controllers.Options{Client: &amid{Interface: c, once: sync.OnceFunc(func() {
				if asked = true; !already {
					return
				}
				cron, err := client.Get[*batchv1.CronJob](t.Context(), c, client.CronJobs, "default", "tick")
				if err != nil {
					t.Error(err)
					return
				}
				cron = cron.DeepCopy()
				cron.Status.LastScheduleTime = &metav1.Time{Time: time.Now().Truncate(time.Hour)}
				if _, err := c.Update(t.Context(), client.CronJobs, cron, "status"); err != nil {
					t.Error(err)
				}
			})}}))
			time.Sleep(time.Hour + time.Minute)
			stop()
			jobs, _, err := c.List(t.Context(), client.Jobs, "default", metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if there := len(jobs) > 0; !asked || there == already {
				t.Errorf("asked %t, made by another %t: there are %d Jobs", asked, already, len(jobs))
			}
		})
	}
}
