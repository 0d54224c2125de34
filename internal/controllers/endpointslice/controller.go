// Package endpointslice lists, for each Service with a selector, the addresses
// of its pods in EndpointSlices, which the service proxies and DNS read.
//
// Use: New(options).Run(ctx).
//
// Concurrency: as package loop.
//
// Failure: slices are compared with the pods, whatever happened before; new
// ones get names that follow from the service, so that none is made twice.
//
// Cost: a pod that changes in a way that matters makes us look at the services
// of its namespace that select it. A look costs in proportion to the
// namespace's pods; the looks at a large service are spaced out, and
// only the slices that differ are written.
//
// Unlike upstream no annotation is written for the time of the change that
// caused a write: it would make equal states differ.
package endpointslice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "endpointslice"

// How far the looks at a service are spaced out: patience for each pod.
const (
	few         = 100
	patience    = 50 * time.Microsecond
	maxPatience = time.Second
)

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client                        client.Interface
	services, pods, nodes, slices client.View
	written                       controllers.Written

	mu    sync.Mutex
	sizes map[loop.Key]int // pods at the last look, when not few; guarded by mu
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:   opts.Client,
		services: opts.Client.View(client.Services, client.ViewOptions{}),
		pods:     opts.Client.View(client.Pods, client.ViewOptions{}),
		nodes:    opts.Client.View(client.Nodes, client.ViewOptions{}),
		slices:   opts.Client.View(client.EndpointSlices, client.ViewOptions{}),
		sizes:    map[loop.Key]int{},
	}
	c.slices.Index(byService, serviceOf)
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// byService indexes our slices by namespace and service.
const byService = "endpointslice.service"

func serviceOf(obj client.Object) []string {
	l := obj.GetLabels()
	if l[discoveryv1.LabelManagedBy] != ManagedBy || l[discoveryv1.LabelServiceName] == "" {
		return nil
	}
	return []string{obj.GetNamespace() + "/" + l[discoveryv1.LabelServiceName]}
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.services, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.slices, Changed: c.sliceChanged},
		controllers.Input{View: c.nodes, Changed: c.nodeChanged},
		controllers.Input{View: c.pods, Changed: c.podChanged})
}

// sliceChanged looks at the service whose slice somebody has changed.
func (c *Controller) sliceChanged(old, new client.Object) {
	for _, obj := range []client.Object{old, new} {
		if obj == nil {
			continue
		}
		for range serviceOf(obj) {
			c.lookSoon(loop.Key{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[discoveryv1.LabelServiceName]})
		}
	}
}

// nodeChanged looks at the services with pods on a node whose zone changed,
// which is rare.
func (c *Controller) nodeChanged(old, new client.Object) {
	if new == nil || old != nil && zoneOf(old) == zoneOf(new) || old == nil && zoneOf(new) == "" {
		return
	}
	for _, pod := range client.Listed[*corev1.Pod](c.pods, "") {
		if pod.Spec.NodeName == new.GetName() {
			c.lookAtServices(pod.Namespace, pod.Labels)
		}
	}
}

func zoneOf(node client.Object) string { return node.GetLabels()[corev1.LabelTopologyZone] }

func (c *Controller) podChanged(old, new client.Object) {
	before, _ := old.(*corev1.Pod)
	pod, _ := new.(*corev1.Pod)
	if before != nil && pod != nil && SameBackend(before, pod) {
		return
	}
	if before != nil && (pod == nil || !maps.Equal(before.Labels, pod.Labels)) {
		c.lookAtServices(before.Namespace, before.Labels)
	}
	if pod != nil {
		c.lookAtServices(pod.Namespace, pod.Labels)
	}
}

// SameBackend tells that nothing of a pod changed that its services show.
func SameBackend(a, b *corev1.Pod) bool {
	return a.UID == b.UID && Backend(a) == Backend(b) && Ready(a) == Ready(b) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.Spec.NodeName == b.Spec.NodeName && slices.Equal(a.Status.PodIPs, b.Status.PodIPs) && a.Status.PodIP == b.Status.PodIP &&
		maps.Equal(a.Labels, b.Labels)
}

func (c *Controller) lookAtServices(namespace string, set labels.Set) {
	for _, service := range client.Listed[*corev1.Service](c.services, namespace) {
		if Selects(service, set) {
			c.lookSoon(controllers.KeyOf(service))
		}
	}
}

// Selects tells whether a service that has a selector selects labels.
func Selects(service *corev1.Service, set labels.Set) bool {
	if len(service.Spec.Selector) == 0 || service.Spec.Type == corev1.ServiceTypeExternalName {
		return false
	}
	for k, v := range service.Spec.Selector {
		if had, ok := set[k]; !ok || had != v {
			return false
		}
	}
	return true
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
	if service == nil || service.DeletionTimestamp != nil || len(service.Spec.Selector) == 0 || service.Spec.Type == corev1.ServiceTypeExternalName {
		c.noteSize(key, 0)
		return loop.Done(), nil // slices go with their owner; those without a selector are somebody else's
	}
	w := world{service: service,
		slices: client.Indexed[*discoveryv1.EndpointSlice](c.slices, byService, key.String()),
		zone: func(name string) string {
			if node := c.nodes.Get("", name); node != nil {
				return zoneOf(node)
			}
			return ""
		},
		taken: func(name string) bool { return c.slices.Get(key.Namespace, name) != nil },
	}
	for _, pod := range client.Listed[*corev1.Pod](c.pods, key.Namespace) {
		if Selects(service, pod.Labels) {
			w.pods = append(w.pods, pod)
		}
	}
	c.noteSize(key, len(w.pods))
	return c.act(ctx, key, plan(w))
}

func (c *Controller) act(ctx context.Context, key loop.Key, next step) (loop.Outcome, error) {
	switch s := next; {
	case s.create != nil:
		got, err := c.client.Create(ctx, client.EndpointSlices, s.create)
		if controllers.NamespaceEnding(err) {
			return loop.WaitFor("Namespace "+key.Namespace, "it is being deleted: nothing is created in it"), nil
		}
		return c.wrote(key, got, err, "created slice %s with %d endpoints", s.create.Name, len(s.create.Endpoints))
	case s.update != nil:
		got, err := c.client.Update(ctx, client.EndpointSlices, s.update)
		return c.wrote(key, got, err, "updated slice %s: %d endpoints", s.update.Name, len(s.update.Endpoints))
	case s.remove != nil:
		err := c.client.Delete(ctx, client.EndpointSlices, key.Namespace, s.remove.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.remove.UID}})
		if err == nil || apierrors.IsNotFound(err) {
			return loop.Done(), nil // the view shows it soon, and a change is a look
		}
		return loop.Outcome{}, fmt.Errorf("delete slice %s: %w", s.remove.Name, err)
	}
	return loop.Done(), nil
}

func (c *Controller) wrote(key loop.Key, got client.Object, err error, format string, args ...any) (loop.Outcome, error) {
	if err != nil {
		return loop.Outcome{}, fmt.Errorf(format+": %w", append(args, err)...)
	}
	c.written.Note(key, c.slices, got)
	return loop.Acted(format, args...), nil
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
