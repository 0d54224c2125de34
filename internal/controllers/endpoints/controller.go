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
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslice"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "endpoints"

// How far the looks at a service are spaced out: patience for each pod.
const (
	few         = 20
	patience    = 500 * time.Microsecond
	maxPatience = time.Second
)

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client                    client.Interface
	services, pods, endpoints client.View
	written                   controllers.Written

	mu    sync.Mutex
	sizes map[loop.Key]int // pods at the last look, when not few; guarded by mu
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:    opts.Client,
		services:  opts.Client.View(client.Services, client.ViewOptions{}),
		pods:      opts.Client.View(client.Pods, client.ViewOptions{}),
		endpoints: opts.Client.View(client.Endpoints, client.ViewOptions{}),
		sizes:     map[loop.Key]int{},
	}
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.services, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.endpoints, Changed: c.endpointsChanged},
		controllers.Input{View: c.pods, Changed: c.podChanged})
}

func (c *Controller) endpointsChanged(old, new client.Object) {
	c.lookSoon(controllers.KeyOf(controllers.Present(old, new)))
}

func (c *Controller) podChanged(old, new client.Object) {
	before, _ := old.(*corev1.Pod)
	pod, _ := new.(*corev1.Pod)
	if before != nil && pod != nil && endpointslice.SameBackend(before, pod) {
		return
	}
	if before != nil && (pod == nil || !maps.Equal(before.Labels, pod.Labels)) {
		c.lookAtServices(before.Namespace, before.Labels)
	}
	if pod != nil {
		c.lookAtServices(pod.Namespace, pod.Labels)
	}
}

func (c *Controller) lookAtServices(namespace string, set labels.Set) {
	for _, service := range client.Listed[*corev1.Service](c.services, namespace) {
		if endpointslice.Selects(service, set) {
			c.lookSoon(controllers.KeyOf(service))
		}
	}
}

func (c *Controller) lookSoon(key loop.Key) {
	c.mu.Lock()
	n := c.sizes[key]
	c.mu.Unlock()
	if n < few {
		c.Look(key)
		return
	}
	c.LookAfter(key, min(maxPatience, time.Duration(n)*patience))
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	service := client.In[*corev1.Service](c.services, key.Namespace, key.Name)
	had := client.In[*corev1.Endpoints](c.endpoints, key.Namespace, key.Name)
	if service == nil {
		c.noteSize(key, 0)
		if had == nil || had.Labels[managedBy] != ours || had.DeletionTimestamp != nil {
			return loop.Done(), nil
		}
		err := c.client.Delete(ctx, client.Endpoints, key.Namespace, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &had.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return loop.Outcome{}, fmt.Errorf("delete the endpoints of a service that is gone: %w", err)
		}
		return loop.Done(), nil // the view shows it soon, and a change is a look
	}
	if len(service.Spec.Selector) == 0 || service.Spec.Type == corev1.ServiceTypeExternalName || service.DeletionTimestamp != nil {
		return loop.Done(), nil // somebody else's
	}
	var pods []*corev1.Pod
	for _, pod := range client.Listed[*corev1.Pod](c.pods, key.Namespace) {
		if endpointslice.Selects(service, pod.Labels) {
			pods = append(pods, pod)
		}
	}
	c.noteSize(key, len(pods))
	want := plan(service, pods, had)
	switch {
	case want == nil:
		return loop.Done(), nil
	case had == nil:
		got, err := c.client.Create(ctx, client.Endpoints, want)
		if controllers.NamespaceEnding(err) {
			return loop.WaitFor("Namespace "+key.Namespace, "it is being deleted: nothing is created in it"), nil
		}
		return c.wrote(key, got, err, "created the endpoints")
	}
	got, err := c.client.Update(ctx, client.Endpoints, want)
	return c.wrote(key, got, err, "updated the endpoints")
}

func (c *Controller) wrote(key loop.Key, got client.Object, err error, what string) (loop.Outcome, error) {
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("%s: %w", what, err)
	}
	c.written.Note(key, c.endpoints, got)
	return loop.Acted("%s", what), nil
}

func (c *Controller) noteSize(key loop.Key, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < few {
		delete(c.sizes, key)
	} else {
		c.sizes[key] = n
	}
}
