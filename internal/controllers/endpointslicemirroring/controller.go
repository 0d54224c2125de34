// Package endpointslicemirroring makes EndpointSlices of the Endpoints that
// somebody keeps by hand, for a Service that selects no pods: service proxies
// and DNS read slices only.
//
// Endpoints of a service with a selector, those that serve as a lock of an
// election, and those labelled endpointslice.kubernetes.io/skip-mirror are left
// alone. Of each set of ports 1,000 addresses are mirrored; what is beyond is
// told in the outcome.
//
// See https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#endpointslice-mirroring.
//
// Concurrency: as package loop.
package endpointslicemirroring

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/sliceset"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "endpointslicemirroring"

// Controller is the loop, wired. Its keys are those of Endpoints.
type Controller struct {
	*loop.Loop
	client                      client.Interface
	services, endpoints, slices client.View
	written                     controllers.Written
}

const byService = "endpointslicemirroring.service"

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:    opts.Client,
		services:  opts.Client.View(client.Services, client.ViewOptions{}),
		endpoints: opts.Client.View(client.Endpoints, client.ViewOptions{}),
		slices:    opts.Client.View(client.EndpointSlices, client.ViewOptions{}),
	}
	c.slices.Index(byService, func(obj client.Object) []string {
		if key, ok := ours(obj); ok {
			return []string{key.String()}
		}
		return nil
	})
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// ours is the key to which a slice belongs.
func ours(obj client.Object) (loop.Key, bool) {
	if obj == nil {
		return loop.Key{}, false
	}
	l := obj.GetLabels()
	return loop.Key{Namespace: obj.GetNamespace(), Name: l[discoveryv1.LabelServiceName]}, l[discoveryv1.LabelManagedBy] == ManagedBy
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.endpoints, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.services, Changed: c.serviceChanged},
		controllers.Input{View: c.slices, Changed: func(old, new client.Object) {
			for _, obj := range []client.Object{old, new} {
				if key, ok := ours(obj); ok {
					c.Look(key)
				}
			}
		}})
}

// serviceChanged looks when a service begins or ceases to be one without a
// selector.
func (c *Controller) serviceChanged(old, new client.Object) {
	bare := func(obj client.Object) bool {
		svc, ok := obj.(*corev1.Service)
		return ok && len(svc.Spec.Selector) == 0
	}
	if bare(old) != bare(new) {
		c.Look(controllers.KeyOf(controllers.Present(old, new)))
	}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	ep := client.In[*corev1.Endpoints](c.endpoints, key.Namespace, key.Name)
	had := client.Indexed[*discoveryv1.EndpointSlice](c.slices, byService, key.String())
	var want []*discoveryv1.EndpointSlice
	left := 0
	if mirrored(ep, client.In[*corev1.Service](c.services, key.Namespace, key.Name)) {
		want, left = wanted(ep)
	}
	if s := plan(had, want); s != (sliceset.Step{}) {
		keeper := sliceset.Keeper{Client: c.client, Written: &c.written, Slices: c.slices}
		return keeper.Take(ctx, key, s)
	}
	if left > 0 {
		return loop.WaitFor("Endpoints "+key.String(), "%d addresses are beyond the %d that are mirrored", left, maxAddresses), nil
	}
	return loop.Done(), nil
}
