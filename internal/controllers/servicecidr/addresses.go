package servicecidr

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// managedBy is the value of the label that says which IPAddresses are those of
// services.
const managedBy = "ipallocator.k8s.io"

// Addresses is the loop of IPAddresses, wired. Its keys are addresses.
type Addresses struct {
	*loop.Loop
	client              client.Interface
	services, addresses client.View
	written             controllers.Written
}

const byAddress = "servicecidr.address"

// NewAddresses wires the loop; Run turns it.
func NewAddresses(opts controllers.Options) *Addresses {
	c := &Addresses{client: opts.Client,
		services:  opts.Client.View(client.Services, client.ViewOptions{}),
		addresses: opts.Client.View(client.IPAddresses, client.ViewOptions{})}
	c.services.Index(byAddress, addressesOf)
	c.Loop = controllers.NewLoop(opts, "ipaddress", 0, c.reconcile)
	return c
}

// addressesOf are the cluster IPs of a service, as IPAddresses are named.
func addressesOf(obj client.Object) (out []string) {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return nil
	}
	for _, text := range svc.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			out = append(out, ip.String())
		}
	}
	return out
}

// Run turns the loop until ctx ends.
func (c *Addresses) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.services, Changed: func(old, new client.Object) {
			for _, obj := range []client.Object{old, new} {
				for _, ip := range addressesOf(obj) {
					c.Look(loop.Key{Name: ip})
				}
			}
		}},
		controllers.Input{View: c.addresses, Changed: controllers.Look(c.Loop)})
}

func (c *Addresses) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	owners := client.Indexed[*corev1.Service](c.services, byAddress, key.Name)
	had := client.In[*networkingv1.IPAddress](c.addresses, "", key.Name)
	ours := had != nil && had.Labels[networkingv1.LabelManagedBy] == managedBy
	switch {
	case len(owners) == 0 && !ours:
		return loop.Done(), nil // nobody's, or somebody's who asked the API for it
	case len(owners) == 0:
		return c.remove(ctx, key, had)
	}
	want := addressFor(owners[0], key.Name)
	switch {
	case had == nil:
		got, err := c.client.Create(ctx, client.IPAddresses, want)
		return c.written.Outcome(key, c.addresses, got, err, "create", "IPAddress %s", key.Name)
	case equality.Semantic.DeepEqual(had.Spec, want.Spec) || had.DeletionTimestamp != nil:
		return loop.Done(), nil
	case ours:
		return c.remove(ctx, key, had) // what it says cannot be changed
	}
	return loop.WaitFor("IPAddress "+key.Name, "it says that the address is another's, but service %s/%s has it", owners[0].Namespace, owners[0].Name), nil
}

func addressFor(svc *corev1.Service, ip string) *networkingv1.IPAddress {
	family := corev1.IPv4Protocol
	if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() {
		family = corev1.IPv6Protocol
	}
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: managedBy}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name}},
	}
}

func (c *Addresses) remove(ctx context.Context, key loop.Key, ip *networkingv1.IPAddress) (loop.Outcome, error) {
	if ip.DeletionTimestamp != nil {
		return loop.Done(), nil
	}
	if err := controllers.DeleteSame(ctx, c.client, client.IPAddresses, ip); err != nil {
		return loop.Outcome{}, fmt.Errorf("delete IPAddress %s: %w", key.Name, err)
	}
	return loop.Done(), nil // the view shows it soon, and a change is a look
}
