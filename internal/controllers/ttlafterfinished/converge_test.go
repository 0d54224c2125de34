package ttlafterfinished_test

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
	"github.com/setpoint-project/setpoint/internal/controllers/garbage"
	"github.com/setpoint-project/setpoint/internal/controllers/job"
	"github.com/setpoint-project/setpoint/internal/controllers/ttlafterfinished"
)

// Jobs without work are complete at once. Those with a time to live go, the
// others stay.
func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{ttlafterfinished.New(o)}
		},
		Others: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{job.New(o), garbage.New(o)}
		},
		Runs: 100,
		Start: func(w *controllertest.World) {
			for i := range 3 {
				j := &batchv1.Job{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("job-", i), Namespace: "default"},
					Spec: batchv1.JobSpec{
						Completions: new(int32(0)), Parallelism: new(int32(0)),
						Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
							RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
						}},
					},
				}
				if i > 0 {
					j.Spec.TTLSecondsAfterFinished = new(w.Rand.Int32N(100))
				}
				w.Create(client.Jobs, j)
			}
		},
		Meanwhile: func(w *controllertest.World) { // one stays longer than anybody looks
			w.Edit(client.Jobs, "default", "job-0", func(obj client.Object) {
				obj.(*batchv1.Job).Spec.TTLSecondsAfterFinished = new(int32(24 * time.Hour / time.Second))
			})
		},
		End: func(w *controllertest.World) string { return w.Lines(client.Jobs, client.Object.GetName) },
	})
}
