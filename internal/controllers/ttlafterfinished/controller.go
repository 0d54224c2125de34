// Package ttlafterfinished deletes Jobs some time after they have ended, when
// they say so.
//
// Use: New(options).Run(ctx).
//
// Concurrency: as package loop.
//
// Failure: the time is counted from the Job's own conditions, so a restart
// forgets nothing. Before a Job is deleted the server itself is asked whether
// its time is still up, for a view may be late and the time may have been
// extended.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/.
package ttlafterfinished

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/job"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "ttlafterfinished"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client client.Interface
	jobs   client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{client: opts.Client, jobs: opts.Client.View(client.Jobs, client.ViewOptions{})}
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.jobs, Changed: func(_, new client.Object) {
		if j, ok := new.(*batchv1.Job); ok {
			if _, ends := left(j, time.Now()); ends {
				c.Look(controllers.KeyOf(j))
			}
		}
	}})
}

// left is how long a Job is to stay, once it has ended.
func left(j *batchv1.Job, now time.Time) (d time.Duration, ends bool) {
	end, done := job.IsFinished(j)
	if !done || j.Spec.TTLSecondsAfterFinished == nil || j.DeletionTimestamp != nil {
		return 0, false
	}
	ttl := time.Duration(*j.Spec.TTLSecondsAfterFinished) * time.Second
	return end.LastTransitionTime.Add(ttl).Sub(now), true
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	j := client.In[*batchv1.Job](c.jobs, key.Namespace, key.Name)
	if j == nil {
		return loop.Done(), nil
	}
	d, ends := left(j, time.Now())
	switch {
	case !ends:
		return loop.Done(), nil
	case d > 0:
		return loop.DoneUntil(d), nil
	}
	live, err := client.Get[*batchv1.Job](ctx, c.client, client.Jobs, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	if err != nil {
		return loop.Outcome{}, err
	}
	if d, ends := left(live, time.Now()); !ends || d > 0 || live.UID != j.UID {
		return loop.DoneUntil(max(d, time.Second)), nil
	}
	err = c.client.Delete(ctx, client.Jobs, key.Namespace, key.Name, metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationForeground),
		Preconditions:     &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return loop.Outcome{}, err
	}
	return loop.Done(), nil // the view shows it soon, and a change is a look
}
