package job_test

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
)

// An Indexed Job of 5,000 runs to its end: each index succeeds once, and no pod
// keeps the finalizer.
func TestFiveThousandIndexes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, apitest.Options{Mutable: true}).Client("tester")
		o := controllers.Options{Client: c}
		defer controllertest.Turn(append(loops(o), newKubelets(o)...)...)()
		if _, err := c.Create(t.Context(), client.Jobs, indexed(newJob("ok", 5000, 5000))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		j, err := client.Get[*batchv1.Job](t.Context(), c, client.Jobs, "default", "work")
		if err != nil {
			t.Fatal(err)
		}
		if st := j.Status; st.CompletionTime == nil || st.Succeeded != 5000 || st.CompletedIndexes != "0-4999" {
			t.Errorf("%d have succeeded: %s; complete at %v", st.Succeeded, st.CompletedIndexes, st.CompletionTime)
		}
		pods, _, err := c.List(t.Context(), client.Pods, "default", metav1.ListOptions{})
		if err != nil || len(pods) != 5000 {
			t.Errorf("there are %d pods, %v", len(pods), err)
		}
		for _, pod := range pods {
			if len(pod.GetFinalizers()) > 0 {
				t.Fatalf("pod %s keeps %v", pod.GetName(), pod.GetFinalizers())
			}
		}
	})
}
