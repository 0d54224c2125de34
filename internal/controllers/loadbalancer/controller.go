// Package loadbalancer gives Services of type LoadBalancer their addresses, for
// one machine or a small network: those of the nodes, or one from a pool. Rules
// on every node (package network/proxy) lead connections on to the endpoints,
// and for a pool one node answers for each address (package network/announce).
//
// A service that names another loadBalancerClass is left alone. What stands in
// the way is said in the outcome and in an event: a port that another service
// has at the same address, or the API server; an address outside of the pool;
// a pool that is used up. Of two services that want the same, the older has it.
// A service of two families gets addresses of both, as far as there are any.
//
// Concurrency: one worker: an address that was just given must be seen before
// the next is. Two copies at once may give one twice; the younger service gets
// another then.
//
// See https://kubernetes.io/docs/concepts/services-networking/service/#loadbalancer.
package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "loadbalancer"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client                  client.Interface
	pool                    Pool
	events                  client.Recorder
	services, slices, nodes client.View
	written                 controllers.Written
}

const (
	byService = "endpointslice.anyService"
	// byAddress finds services by where they are, byPort by what they want, and
	// all finds those that are ours.
	byAddress = "loadbalancer.address"
	byPort    = "loadbalancer.port"
	all       = "loadbalancer"
)

// New wires the loop; Run turns it.
func New(opts controllers.Options, pool Pool) *Controller {
	c := &Controller{
		client: opts.Client, pool: pool, events: opts.Recorder(),
		services: opts.Client.View(client.Services, client.ViewOptions{}),
		slices:   opts.Client.View(client.EndpointSlices, client.ViewOptions{}),
		nodes:    opts.Client.View(client.Nodes, client.ViewOptions{}),
	}
	c.slices.Index(byService, func(obj client.Object) []string {
		return []string{obj.GetNamespace() + "/" + obj.GetLabels()[discoveryv1.LabelServiceName]}
	})
	each := func(list func(*corev1.Service) []string) func(client.Object) []string {
		return func(obj client.Object) []string {
			if svc, ok := obj.(*corev1.Service); ok && (ours(svc) || slices.Contains(svc.Finalizers, finalizer)) {
				return list(svc)
			}
			return nil
		}
	}
	c.services.Index(all, each(func(*corev1.Service) []string { return []string{all} }))
	c.services.Index(byAddress, each(addressesIn))
	c.services.Index(byPort, each(portsOf))
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// addressesIn are those of a service's status.
func addressesIn(svc *corev1.Service) (out []string) {
	for _, in := range svc.Status.LoadBalancer.Ingress {
		out = append(out, in.IP)
	}
	return out
}

func portsOf(svc *corev1.Service) (out []string) {
	for i := range svc.Spec.Ports {
		out = append(out, fmt.Sprint(svc.Spec.Ports[i].Port))
	}
	return out
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.services, Changed: c.serviceChanged},
		controllers.Input{View: c.slices, Changed: c.sliceChanged},
		controllers.Input{View: c.nodes, Changed: c.nodeChanged})
}

// serviceChanged looks at a service, and at those that may have waited for
// what it had, or have what it has got.
func (c *Controller) serviceChanged(old, new client.Object) {
	for _, obj := range []client.Object{old, new} {
		svc, ok := obj.(*corev1.Service)
		if !ok || !ours(svc) && !slices.Contains(svc.Finalizers, finalizer) {
			continue
		}
		c.Look(controllers.KeyOf(svc))
		if c.pool.Nodes() {
			for _, port := range portsOf(svc) {
				c.lookAll(byPort, port)
			}
			continue
		}
		for _, ip := range addressesIn(svc) {
			c.lookAll(byAddress, ip)
		}
	}
	if was, ok := old.(*corev1.Service); ok && !c.pool.Nodes() {
		var has []string
		if is, ok := new.(*corev1.Service); ok && ours(is) {
			has = addressesIn(is)
		}
		if slices.ContainsFunc(addressesIn(was), func(ip string) bool { return !slices.Contains(has, ip) }) {
			c.lookAll(all, all) // an address is free, for whoever waits
		}
	}
}

func (c *Controller) lookAll(index, value string) {
	for _, obj := range c.services.ByIndex(index, value) {
		c.Look(controllers.KeyOf(obj))
	}
}

// sliceChanged looks at a service whose traffic stays on the nodes with
// endpoints. The API server's own address counts for all.
func (c *Controller) sliceChanged(old, new client.Object) {
	obj := controllers.Present(old, new)
	if !c.pool.Nodes() {
		return
	}
	key := loop.Key{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[discoveryv1.LabelServiceName]}
	svc := client.In[*corev1.Service](c.services, key.Namespace, key.Name)
	switch {
	case key == apiServer:
		c.lookAll(all, all)
	case svc != nil && ours(svc) && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		c.Look(key)
	}
}

// nodeChanged looks at all services when a node comes, goes, or is reached
// elsewhere.
func (c *Controller) nodeChanged(old, new client.Object) {
	type place struct {
		at, at6  netip.Addr
		ready    bool
		excluded bool
	}
	of := func(obj client.Object) (p place) {
		if node, ok := obj.(*corev1.Node); ok {
			p.at, p.at6, p.ready = addressOf(node, corev1.IPv4Protocol), addressOf(node, corev1.IPv6Protocol), nodeReady(node)
			_, p.excluded = node.Labels[corev1.LabelNodeExcludeBalancers]
		}
		return p
	}
	if c.pool.Nodes() && of(old) != of(new) {
		c.lookAll(all, all)
	}
}

// apiServer is the service by which pods reach the API server.
var apiServer = loop.Key{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	svc := client.In[*corev1.Service](c.services, key.Namespace, key.Name)
	if svc == nil {
		return loop.Done(), nil
	}
	if !ours(svc) {
		return c.giveBack(ctx, key, svc)
	}
	if next := withFinalizer(svc, true); next != nil {
		return c.write(ctx, key, next, "add the finalizer to %s", key)
	}
	list, p := addressesOf(c.world(svc))
	if next := withIngress(svc, list); next != nil {
		outcome, err := c.write(ctx, key, next, "give %s the addresses %v", key, list)
		if err == nil && len(list) > 0 {
			c.events.Event(svc, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Reached at %v", list)
		}
		return outcome, err
	}
	if p != nil {
		c.events.Event(svc, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "No address: waits for %s: %s", p.on, p.reason)
		return loop.WaitFor(p.on, "%s", p.reason), nil
	}
	return loop.Done(), nil
}

// giveBack takes our address and finalizer from a service that is to have
// them no more.
func (c *Controller) giveBack(ctx context.Context, key loop.Key, svc *corev1.Service) (loop.Outcome, error) {
	if !slices.Contains(svc.Finalizers, finalizer) || svc.Spec.LoadBalancerClass != nil && *svc.Spec.LoadBalancerClass != Class {
		return loop.Done(), nil
	}
	if next := withIngress(svc, nil); next != nil {
		return c.write(ctx, key, next, "take the addresses of %s", key)
	}
	return c.write(ctx, key, withFinalizer(svc, false), "take the finalizer of %s", key)
}

// write writes a service, or its status where that is what differs, and waits
// until that is seen: the next service must not be given the same address.
func (c *Controller) write(ctx context.Context, key loop.Key, next *corev1.Service, format string, args ...any) (loop.Outcome, error) {
	what := fmt.Sprintf(format, args...)
	var sub []string
	if had := client.In[*corev1.Service](c.services, key.Namespace, key.Name); had != nil && slices.Equal(had.Finalizers, next.Finalizers) {
		sub = []string{"status"}
	}
	got, err := c.client.Update(ctx, client.Services, next, sub...)
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("%s: %w", what, err)
	}
	c.written.Note(key, c.services, got)
	if err := c.services.WaitFor(ctx, got.GetResourceVersion()); err != nil {
		return loop.Outcome{}, err
	}
	return loop.Acted("%s", what), nil
}

func (c *Controller) world(svc *corev1.Service) world {
	w := world{service: svc, pool: c.pool, nodes: client.Listed[*corev1.Node](c.nodes, "")}
	for _, s := range client.Indexed[*discoveryv1.EndpointSlice](c.slices, byService, apiServer.String()) {
		for i := range s.Endpoints {
			for _, p := range s.Ports {
				if ip, err := netip.ParseAddr(s.Endpoints[i].Addresses[0]); err == nil && p.Port != nil {
					w.server = append(w.server, netip.AddrPortFrom(ip, uint16(*p.Port)))
				}
			}
		}
	}
	w.hasEndpoint = func(node string) bool {
		for _, s := range client.Indexed[*discoveryv1.EndpointSlice](c.slices, byService, svc.Namespace+"/"+svc.Name) {
			for i := range s.Endpoints {
				e := &s.Endpoints[i]
				if e.NodeName != nil && *e.NodeName == node && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					return true
				}
			}
		}
		return false
	}
	w.rivals = func(port int32) (out []*corev1.Service) {
		for _, other := range client.Indexed[*corev1.Service](c.services, byPort, fmt.Sprint(port)) {
			if other.UID != svc.UID && ours(other) && precedes(other, svc) {
				out = append(out, other)
			}
		}
		return out
	}
	w.at = func(ip netip.Addr) (out []*corev1.Service) {
		had := slices.ContainsFunc(addressesIn(svc), func(text string) bool { return text == ip.String() })
		for _, other := range client.Indexed[*corev1.Service](c.services, byAddress, ip.String()) {
			// Of two that have the same, the older stays.
			if other.UID != svc.UID && (!had || precedes(other, svc)) {
				out = append(out, other)
			}
		}
		return out
	}
	return w
}
