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
// that select it, which an index finds. A look costs in proportion to the
// service's pods; the looks at a large service are spaced out, and only the
// slices that differ are written.
//
// Hints come from trafficDistribution (endpoint.go) or, where the annotation
// topology-mode asks for it, from the CPUs of each zone (spread.go), which are
// summed up as nodes change (zones.go).
//
// Unlike upstream no annotation is written for the time of the change that
// caused a write: it would make equal states differ.
package endpointslice

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/sliceset"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "endpointslice"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client        client.Interface
	backends      Backends
	nodes, slices client.View
	written       controllers.Written
	pace          controllers.Pace // by the number of pods
	zones         zones
	events        client.Recorder

	mu   sync.Mutex
	told map[loop.Key]string // guarded by mu: what was last said of a service's hints
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:   opts.Client,
		backends: NewBackends(opts.Client),
		nodes:    opts.Client.View(client.Nodes, client.ViewOptions{}),
		slices:   opts.Client.View(client.EndpointSlices, client.ViewOptions{}),
		events:   opts.Recorder(),
		told:     map[loop.Key]string{},
		pace:     controllers.Pace{Few: 100, Each: 50 * time.Microsecond, Most: time.Second},
	}
	client.IndexByNode(c.backends.Pods)
	c.slices.Index(byService, serviceOf)
	c.backends.Services.Index(byMode, func(obj client.Object) []string {
		if service, ok := obj.(*corev1.Service); ok && auto(service) {
			return []string{"auto"}
		}
		return nil
	})
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
		controllers.Input{View: c.backends.Services, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.slices, Changed: c.sliceChanged},
		controllers.Input{View: c.nodes, Changed: c.nodeChanged},
		controllers.Input{View: c.backends.Pods, Changed: c.backends.PodChanged(c.lookSoon)})
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
// which is rare, and at those to which the CPUs of zones matter.
func (c *Controller) nodeChanged(old, new client.Object) {
	node, _ := new.(*corev1.Node)
	if c.zones.put(controllers.Present(old, new).GetName(), node) {
		c.zonesChanged()
	}
	if new == nil || old != nil && zoneOf(old) == zoneOf(new) || old == nil && zoneOf(new) == "" {
		return
	}
	for _, pod := range client.Indexed[*corev1.Pod](c.backends.Pods, client.ByNode, new.GetName()) {
		c.backends.look(pod, c.lookSoon)
	}
}

func zoneOf(node client.Object) string { return node.GetLabels()[corev1.LabelTopologyZone] }

func (c *Controller) lookSoon(key loop.Key) { c.pace.Look(c.Loop, key) }

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	service := client.In[*corev1.Service](c.backends.Services, key.Namespace, key.Name)
	if service == nil || service.DeletionTimestamp != nil || !Managed(service) {
		c.pace.Note(key, 0)
		c.tell(nil, key, "")
		return loop.Done(), nil // slices go with their owner; those without a selector are somebody else's
	}
	w := world{service: service, pods: c.backends.Of(service),
		slices: client.Indexed[*discoveryv1.EndpointSlice](c.slices, byService, key.String()),
		zone: func(name string) string {
			if node := c.nodes.Get("", name); node != nil {
				return zoneOf(node)
			}
			return ""
		},
		zones: c.zones.weigh,
		taken: func(name string) bool { return c.slices.Get(key.Namespace, name) != nil },
	}
	c.pace.Note(key, len(w.pods))
	keeper := sliceset.Keeper{Client: c.client, Written: &c.written, Slices: c.slices}
	step, hints := plan(w)
	c.tell(service, key, hints)
	return keeper.Take(ctx, key, step)
}

// tell people what has become of a service's hints, when that is new. said is
// "" when it asks for none.
func (c *Controller) tell(service *corev1.Service, key loop.Key, said string) {
	c.mu.Lock()
	had := c.told[key]
	if c.told[key] = said; said == "" {
		delete(c.told, key)
	}
	c.mu.Unlock()
	switch {
	case said == had || service == nil:
	case said == "":
		c.events.Event(service, corev1.EventTypeNormal, "TopologyAwareHintsDisabled", "Topology Aware Hints has been disabled")
	case said == enabled:
		c.events.Event(service, corev1.EventTypeNormal, "TopologyAwareHintsEnabled", "%s", said)
	default:
		c.events.Event(service, corev1.EventTypeWarning, "TopologyAwareHintsDisabled", "%s", said)
	}
}
