// Package clusterdns is the loop that lets pods find the nodes' DNS servers: it
// keeps the service kube-dns in kube-system, at the conventional tenth address
// of the service range, and lists the servers that nodes say they run (see
// package dns/feed) as its endpoints, each meant for the pods of its node.
//
// It makes the service when a first node serves names, and steps back from one
// that is not its own: somebody who installs CoreDNS under this name, or gives
// the service a selector, is left alone.
//
// Cost: a look at the nodes when one of them starts or stops serving names, or
// falls silent.
package clusterdns

import (
	"context"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/sliceset"
	"github.com/setpoint-project/setpoint/internal/dns/feed"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "clusterdns"

// only is the one key.
var only = loop.Key{Namespace: metav1.NamespaceSystem, Name: serviceName}

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client                  client.Interface
	ips                     []netip.Addr
	services, slices, nodes client.View
	written                 controllers.Written
}

// address is where the service is, for a service range: the tenth; false when
// the range has none.
func address(services netip.Prefix) (netip.Addr, bool) {
	ip := services.Masked().Addr()
	for range 10 {
		ip = ip.Next()
	}
	// The last of a range is the broadcast address.
	return ip, services.Contains(ip) && services.Contains(ip.Next())
}

// Addresses are where the service is in each of the service ranges that has
// room for it, in their order.
func Addresses(services []netip.Prefix) (ips []netip.Addr) {
	for _, p := range services {
		if ip, ok := address(p); ok {
			ips = append(ips, ip)
		}
	}
	return ips
}

// New wires the loop for a service at ips: one address of each family, that of
// the primary family first. Run turns it.
func New(opts controllers.Options, ips []netip.Addr) *Controller {
	named := client.ViewOptions{Namespace: only.Namespace, FieldSelector: "metadata.name=" + only.Name}
	c := &Controller{
		client: opts.Client, ips: ips,
		services: opts.Client.View(client.Services, named),
		slices:   opts.Client.View(client.EndpointSlices, client.ViewOptions{Namespace: only.Namespace, LabelSelector: discoveryv1.LabelManagedBy + "=" + managedBy}),
		nodes:    opts.Client.View(client.Nodes, client.ViewOptions{}),
	}
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	c.Look(only)
	look := func(_, _ client.Object) { c.Look(only) }
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.services, Changed: look},
		controllers.Input{View: c.slices, Changed: look},
		controllers.Input{View: c.nodes, Changed: c.nodeChanged})
}

// nodeChanged looks when it matters: nodes tell their state all the time.
func (c *Controller) nodeChanged(old, new client.Object) {
	state := func(o client.Object) (at string, up bool) {
		if node, ok := o.(*corev1.Node); ok {
			at = node.Annotations[feed.Annotation]
			up = at != "" && alive(node) && node.DeletionTimestamp == nil
		}
		return at, up
	}
	was, wasUp := state(old)
	is, isUp := state(new)
	if was != is || wasUp != isUp {
		c.Look(only)
	}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	svc := client.In[*corev1.Service](c.services, key.Namespace, key.Name)
	had := client.Listed[*discoveryv1.EndpointSlice](c.slices, key.Namespace)
	nodes := client.Listed[*corev1.Node](c.nodes, "")
	want := wantService(c.ips)
	switch {
	case svc == nil:
		if len(wantSlices(want, nodes)) == 0 {
			return loop.Done(), nil // nobody serves names
		}
		got, err := c.client.Create(ctx, client.Services, want)
		if apierrors.IsInvalid(err) {
			return loop.WaitFor("address "+strings.Join(want.Spec.ClusterIPs, ", "), "another service has it: %v", err), nil
		}
		return c.written.Outcome(key, c.services, got, err, "create", "service %s", serviceName)
	case svc.DeletionTimestamp != nil:
		return loop.Done(), nil
	case !ours(svc):
		return c.act(ctx, key, planSlices(had, nil))
	}
	if next := mended(svc, want); next != nil {
		got, err := c.client.Update(ctx, client.Services, next)
		return c.written.Outcome(key, c.services, got, err, "update", "service %s", serviceName)
	}
	slices := wantSlices(svc, nodes)
	outcome, err := c.act(ctx, key, planSlices(had, slices))
	if err == nil && outcome.State == loop.Converged && len(slices) == 0 {
		return loop.WaitFor("any Node", "none serves names"), nil
	}
	return outcome, err
}

func (c *Controller) act(ctx context.Context, key loop.Key, s sliceset.Step) (loop.Outcome, error) {
	keeper := sliceset.Keeper{Client: c.client, Written: &c.written, Slices: c.slices}
	return keeper.Take(ctx, key, s)
}
