package cleaning

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Names of the loops.
const (
	Name    = "csrcleaning"
	PodName = "podcertificatecleaning"
)

// PodRequests is the resource of pods' requests.
var PodRequests = certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests")

// Controller is one of the loops, wired. Its keys are requests.
type Controller struct {
	*loop.Loop
	client   client.Interface
	res      client.Resource
	requests client.View
	due      func(client.Object) (time.Time, string)
}

// New wires the loop over CertificateSigningRequests; Run turns it.
func New(opts controllers.Options) *Controller {
	return newLoop(opts, Name, client.SigningRequests, signingDue)
}

// NewPods wires the loop over PodCertificateRequests; Run turns it.
func NewPods(opts controllers.Options) *Controller {
	return newLoop(opts, PodName, PodRequests, podDue)
}

func newLoop[T client.Object](opts controllers.Options, name string, res client.Resource, due func(T) (time.Time, string)) *Controller {
	c := &Controller{client: opts.Client, res: res, requests: opts.Client.View(res, client.ViewOptions{})}
	c.due = func(obj client.Object) (time.Time, string) {
		if r, ok := obj.(T); ok {
			return due(r)
		}
		return time.Time{}, ""
	}
	c.Loop = controllers.NewLoop(opts, name, 2, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.requests, Changed: func(_, new client.Object) {
		if new != nil {
			c.Look(controllers.KeyOf(new))
		}
	}})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	r := c.requests.Get(key.Namespace, key.Name)
	if r == nil || r.GetDeletionTimestamp() != nil {
		return loop.Done(), nil
	}
	due, why := c.due(r)
	if due.IsZero() {
		return loop.Done(), nil
	}
	if left := time.Until(due); left > 0 {
		return loop.DoneUntil(left), nil
	}
	if err := controllers.DeleteSeen(ctx, c.client, c.res, r); err != nil {
		return loop.Outcome{}, fmt.Errorf("delete the request (%s): %w", why, err)
	}
	return loop.Done(), nil // the view shows it soon, and a change is a look
}
