package job_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/job"
)

// An Indexed Job's pod that is gone before its successor is made, which is so
// when only failed pods are replaced, has a successor of another name: clients
// wait for the name to go.
func TestSuccessorHasAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		h := apitest.New(t, apitest.Options{})
		c := h.Client("tester")
		j := indexed(newJob("stay", 1, 1))
		j.Spec.PodReplacementPolicy = new(batchv1.Failed)
		if _, err := c.Create(ctx, client.Jobs, j); err != nil {
			t.Fatal(err)
		}
		only := func() *corev1.Pod {
			t.Helper()
			pods, _, err := c.List(ctx, client.Pods, "default", metav1.ListOptions{})
			if err != nil || len(pods) != 1 {
				t.Fatalf("there are %d pods, %v", len(pods), err)
			}
			return pods[0].(*corev1.Pod)
		}
		loops := &amid{Interface: h.Client("loops")}
		var first *corev1.Pod
		turnAmid(job.New(controllers.Options{Client: loops}), func() {
			first = only().DeepCopy()
			if err := c.Delete(ctx, client.Pods, "default", first.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				t.Fatal(err)
			}
			first = only().DeepCopy() // its finalizer holds it
			first.Status.Phase = corev1.PodFailed
			if _, err := c.Update(ctx, client.Pods, first, "status"); err != nil {
				t.Fatal(err)
			}
		})
		if next := only(); next.UID == first.UID || next.Name == first.Name || loops.made != 2 {
			t.Errorf("after %s came %s, %d were made", first.Name, next.Name, loops.made)
		}
		if j, err := client.Get[*batchv1.Job](ctx, c, client.Jobs, "default", "work"); err != nil || j.Status.Failed != 1 || j.Status.Active != 1 {
			t.Errorf("the Job is %+v, %v", j.Status, err)
		}
	})
}

// gone is a client whose view of pods lags for good, and whose Update finds
// none of them.
type gone struct {
	client.Interface
	asked int
}

func (c *gone) Update(ctx context.Context, res client.Resource, obj client.Object, sub ...string) (client.Object, error) {
	if res == client.Pods {
		c.asked++
		if c.asked > 1000 {
			time.Sleep(time.Hour) // or virtual time would stand still for ever
		}
		return nil, apierrors.NewNotFound(res.GroupResource(), obj.GetName())
	}
	return c.Interface.Update(ctx, res, obj, sub...)
}

// A pod that is gone and still in the view is waited for: to take the finalizer
// from it again and again would be of no use.
func TestWaitsForViewOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		c := h.Client("tester")
		_, pod := started(t, c)
		pod = pod.DeepCopy()
		pod.Status.Phase = corev1.PodSucceeded
		if _, err := c.Update(t.Context(), client.Pods, pod, "status"); err != nil {
			t.Fatal(err)
		}
		loops := &gone{Interface: h.Client("loops")}
		turn(job.New(controllers.Options{Client: loops}))
		if loops.asked == 0 || loops.asked > 150 { // once a second
			t.Errorf("in two minutes it asked %d times", loops.asked)
		}
	})
}
