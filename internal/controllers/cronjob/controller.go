package cronjob

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "cronjob"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written

	crons, jobs client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client,
		events: opts.Recorder(),
		crons:  opts.Client.View(client.CronJobs, client.ViewOptions{}),
		jobs:   opts.Client.View(client.Jobs, client.ViewOptions{}),
	}
	client.IndexByController(c.jobs)
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.crons, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.jobs, Changed: controllers.LookAtController(c.Loop, kind.Kind)},
	)
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	cron := client.In[*batchv1.CronJob](c.crons, key.Namespace, key.Name)
	if cron == nil {
		return loop.Done(), nil
	}
	s := plan(world{
		cron: cron, now: time.Now(),
		jobs: client.Indexed[*batchv1.Job](c.jobs, client.ByController, string(cron.UID)),
	})
	for _, e := range s.events {
		c.events.Event(cron, corev1.EventTypeWarning, e.reason, "%s", e.text)
	}
	switch {
	case s.status != nil:
		changed := *cron // Update copies what it is given
		changed.Status = *s.status
		got, err := c.client.Update(ctx, client.CronJobs, &changed, "status")
		return c.written.Outcome(key, c.crons, got, err, "update", "the status")
	case s.remove != nil:
		return c.remove(ctx, cron, s.remove)
	case s.create != nil:
		return c.create(ctx, key, cron, s.create)
	case s.wait != "":
		return loop.WaitFor(s.on, "%s", s.wait).In(s.after), nil
	}
	return loop.DoneUntil(s.after), nil
}

func (c *Controller) create(ctx context.Context, key loop.Key, cron *batchv1.CronJob, j *batchv1.Job) (loop.Outcome, error) {
	// A Job that another copy of the loop has made may have ended and be gone.
	if late, err := controllers.Outdated(ctx, c.client, client.CronJobs, cron); late || err != nil {
		return loop.WaitFor("", "the view of CronJobs is late: a Job might be made twice").In(time.Second), err
	}
	got, err := c.client.Create(ctx, client.Jobs, j)
	switch {
	case err == nil:
		c.events.Event(cron, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %s", j.Name)
	case apierrors.IsAlreadyExists(err):
		there, getErr := c.client.Get(ctx, client.Jobs, j.Namespace, j.Name)
		if getErr != nil || !metav1.IsControlledBy(there, cron) {
			return loop.Outcome{}, fmt.Errorf("Job %s: another has the name: %w", j.Name, err)
		}
		got, err = there, nil // an answer was lost
	case controllers.NamespaceEnding(err):
		return controllers.WaitForNamespace(key.Namespace)
	case controllers.Refused(err):
		c.events.Event(cron, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
	}
	return c.written.Outcome(key, c.jobs, got, err, "create", "Job %s", j.Name)
}

func (c *Controller) remove(ctx context.Context, cron *batchv1.CronJob, j *batchv1.Job) (loop.Outcome, error) {
	err := c.client.Delete(ctx, client.Jobs, j.Namespace, j.Name, metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground),
		Preconditions:     metav1.NewUIDPreconditions(string(j.UID)),
	})
	switch {
	case err == nil:
		c.events.Event(cron, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %s", j.Name)
	case !apierrors.IsNotFound(err):
		if controllers.Refused(err) {
			c.events.Event(cron, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		}
		return loop.Outcome{}, err
	}
	// A deletion has no revision to wait for; the event brings us back.
	return loop.WaitFor("Job "+j.Namespace+"/"+j.Name, "it goes").In(time.Second), nil
}
