// Package endpoints keeps, for each Service with a selector, the Endpoints
// object that lists its pods: the deprecated form of EndpointSlices, for
// clients that still read it.
//
// Use: New(options).Run(ctx).
//
// Concurrency: as package loop.
//
// Failure: the object is compared with the pods, whatever happened before. It
// has the service's name, so that it cannot be made twice. One whose service is
// gone is deleted if its label says that it is ours.
//
// Cost: as for package endpointslice; but as one object lists up to 1,000
// addresses, the writes for a large service are spaced out further.
package endpoints

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslice"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "endpoints"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client    client.Interface
	backends  endpointslice.Backends
	endpoints client.View
	written   controllers.Written
	pace      controllers.Pace // by the number of pods
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:    opts.Client,
		backends:  endpointslice.NewBackends(opts.Client),
		endpoints: opts.Client.View(client.Endpoints, client.ViewOptions{}),
		pace:      controllers.Pace{Few: 20, Each: 500 * time.Microsecond, Most: time.Second},
	}
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.backends.Services, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.endpoints, Changed: c.endpointsChanged},
		controllers.Input{View: c.backends.Pods, Changed: c.backends.PodChanged(c.lookSoon)})
}

func (c *Controller) endpointsChanged(old, new client.Object) {
	c.lookSoon(controllers.KeyOf(controllers.Present(old, new)))
}

func (c *Controller) lookSoon(key loop.Key) { c.pace.Look(c.Loop, key) }

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	service := client.In[*corev1.Service](c.backends.Services, key.Namespace, key.Name)
	had := client.In[*corev1.Endpoints](c.endpoints, key.Namespace, key.Name)
	if service == nil {
		c.pace.Note(key, 0)
		if had == nil || had.Labels[managedBy] != ours || had.DeletionTimestamp != nil {
			return loop.Done(), nil
		}
		if err := controllers.DeleteSame(ctx, c.client, client.Endpoints, had); err != nil {
			return loop.Outcome{}, fmt.Errorf("delete the endpoints of a service that is gone: %w", err)
		}
		return loop.Done(), nil // the view shows it soon, and a change is a look
	}
	if !endpointslice.Managed(service) || service.DeletionTimestamp != nil {
		return loop.Done(), nil // somebody else's
	}
	pods := c.backends.Of(service)
	c.pace.Note(key, len(pods))
	want := plan(service, pods, had)
	switch {
	case want == nil:
		return loop.Done(), nil
	case had == nil:
		got, err := c.client.Create(ctx, client.Endpoints, want)
		if controllers.NamespaceEnding(err) {
			return controllers.WaitForNamespace(key.Namespace)
		}
		return c.written.Outcome(key, c.endpoints, got, err, "create", "the endpoints")
	}
	got, err := c.client.Update(ctx, client.Endpoints, want)
	return c.written.Outcome(key, c.endpoints, got, err, "update", "the endpoints")
}
