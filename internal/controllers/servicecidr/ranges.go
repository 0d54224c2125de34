// Package servicecidr shows the addresses of services as objects of
// networking.k8s.io: a ServiceCIDR for the range they come from, and an
// IPAddress for each that is in use.
//
// Two loops: Ranges keeps the ServiceCIDR "kubernetes", says of each whether
// addresses are given out from it, and keeps one that is being deleted until
// nothing in it is in use. Addresses keeps the IPAddresses.
//
// Unlike upstream the services themselves are the record of what is taken (see
// admission.ServiceAllocator), and the IPAddresses follow them; so no two can
// disagree for long. Services have addresses of the families that the cluster
// was made with: a ServiceCIDR without such a range is told that it is not used.
//
// When the cluster has got a second family, the ServiceCIDR "kubernetes" gets its
// range; nothing else of it changes, for addresses of it are in use. See
// https://kubernetes.io/docs/tasks/network/reconfigure-default-service-ip-ranges/.
//
// See https://kubernetes.io/docs/tasks/network/extend-service-ip-ranges/.
package servicecidr

import (
	"context"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

const (
	// defaultName is that of the range that the cluster was made with.
	defaultName = "kubernetes"
	finalizer   = "networking.k8s.io/service-cidr-finalizer"
)

// Ranges is the loop of ServiceCIDRs, wired.
type Ranges struct {
	*loop.Loop
	client  client.Interface
	ranges  []netip.Prefix // of the primary family first
	written controllers.Written

	cidrs, serving, services client.View
}

// NewRanges wires the loop of a cluster whose services are in ranges: one, or one
// of each family, the primary first.
func NewRanges(opts controllers.Options, ranges []netip.Prefix) *Ranges {
	c := &Ranges{client: opts.Client,
		cidrs:    opts.Client.View(client.ServiceCIDRs, client.ViewOptions{}),
		serving:  opts.Client.View(client.IPAddresses, client.ViewOptions{}),
		services: opts.Client.View(client.Services, client.ViewOptions{})}
	for _, p := range ranges {
		c.ranges = append(c.ranges, p.Masked())
	}
	c.Loop = controllers.NewLoop(opts, "servicecidr", 1, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Ranges) Run(ctx context.Context) error {
	c.Look(loop.Key{Name: defaultName})
	gone := func(old, new client.Object) {
		if new == nil { // one that is being deleted may be free now
			c.lookAtLeaving()
		}
	}
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.cidrs, Changed: c.changed},
		controllers.Input{View: c.serving, Changed: gone},
		controllers.Input{View: c.services, Changed: func(old, new client.Object) {
			if old != nil && (new == nil || !slices.Equal(addressesOf(old), addressesOf(new))) {
				c.lookAtLeaving()
			}
		}})
}

func (c *Ranges) changed(old, new client.Object) {
	c.Look(controllers.KeyOf(controllers.Present(old, new)))
	if old == nil || new == nil {
		c.lookAtLeaving()
	}
}

func (c *Ranges) lookAtLeaving() {
	for _, obj := range c.cidrs.List("") {
		if obj.GetDeletionTimestamp() != nil {
			c.Look(controllers.KeyOf(obj))
		}
	}
}

func (c *Ranges) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	cidr := client.In[*networkingv1.ServiceCIDR](c.cidrs, "", key.Name)
	if cidr == nil {
		if key.Name != defaultName {
			return loop.Done(), nil
		}
		got, err := c.client.Create(ctx, client.ServiceCIDRs, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: defaultName, Finalizers: []string{finalizer}},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: c.texts()}})
		return c.written.Outcome(key, c.cidrs, got, err, "create", "ServiceCIDR %s", key.Name)
	}
	has := slices.Contains(cidr.Finalizers, finalizer)
	if cidr.DeletionTimestamp == nil && !has {
		next := cidr.DeepCopy()
		next.Finalizers = append(next.Finalizers, finalizer)
		got, err := c.client.Update(ctx, client.ServiceCIDRs, next)
		return c.written.Outcome(key, c.cidrs, got, err, "update", "ServiceCIDR %s", key.Name)
	}
	if cidr.Name == defaultName && cidr.DeletionTimestamp == nil && len(c.ranges) == 2 && slices.Equal(cidr.Spec.CIDRs, c.texts()[:1]) {
		next := cidr.DeepCopy()
		next.Spec.CIDRs = c.texts()
		got, err := c.client.Update(ctx, client.ServiceCIDRs, next)
		return c.written.Outcome(key, c.cidrs, got, err, "add the second family to", "ServiceCIDR %s", key.Name)
	}
	used := ""
	if cidr.DeletionTimestamp != nil && has {
		// Services get no more addresses of it: those that have are all seen.
		if err := c.services.WaitFor(ctx, cidr.ResourceVersion); err != nil {
			return loop.Outcome{}, err
		}
		if used = c.inUse(cidr); used == "" {
			next := cidr.DeepCopy()
			next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
			got, err := c.client.Update(ctx, client.ServiceCIDRs, next)
			if apierrors.IsNotFound(err) {
				return loop.Done(), nil
			}
			return c.written.Outcome(key, c.cidrs, got, err, "release", "ServiceCIDR %s", key.Name)
		}
	}
	next := cidr.DeepCopy()
	if meta.SetStatusCondition(&next.Status.Conditions, c.condition(cidr, used)) {
		got, err := c.client.Update(ctx, client.ServiceCIDRs, next, "status")
		return c.written.Outcome(key, c.cidrs, got, err, "update", "the status of ServiceCIDR %s", key.Name)
	}
	if used != "" {
		return loop.WaitFor("IPAddress "+used, "it is in the range, which is being deleted"), nil
	}
	return loop.Done(), nil
}

// condition says whether addresses are given out from a range.
func (c *Ranges) condition(cidr *networkingv1.ServiceCIDR, used string) metav1.Condition {
	out := metav1.Condition{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Reason: "Ready",
		Message: "Kubernetes Service CIDR is ready", ObservedGeneration: cidr.Generation}
	switch {
	case cidr.DeletionTimestamp != nil:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating, "There are still IPAddresses referencing the ServiceCIDR: "+used
	case !slices.ContainsFunc(prefixes(cidr), c.serves):
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, "NotUsed", "no Service of this cluster has addresses of its family"
	}
	return out
}

// serves tells of a range whether services have addresses of its family.
func (c *Ranges) serves(p netip.Prefix) bool {
	return slices.ContainsFunc(c.ranges, func(q netip.Prefix) bool { return p.Addr().Is4() == q.Addr().Is4() })
}

func (c *Ranges) texts() (out []string) {
	for _, p := range c.ranges {
		out = append(out, p.String())
	}
	return out
}

func prefixes(cidr *networkingv1.ServiceCIDR) (out []netip.Prefix) {
	for _, text := range cidr.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// inUse is an address of the range that is of no other range; "": none. Services
// are asked as well, for an IPAddress comes after its service.
func (c *Ranges) inUse(cidr *networkingv1.ServiceCIDR) string {
	var others []netip.Prefix
	for _, other := range client.Listed[*networkingv1.ServiceCIDR](c.cidrs, "") {
		if other.Name != cidr.Name && other.DeletionTimestamp == nil {
			others = append(others, prefixes(other)...)
		}
	}
	mine := prefixes(cidr)
	holds := func(name string) bool {
		ip, err := netip.ParseAddr(name)
		in := func(p netip.Prefix) bool { return p.Contains(ip) }
		return err == nil && slices.ContainsFunc(mine, in) && !slices.ContainsFunc(others, in)
	}
	for _, obj := range c.serving.List("") {
		if holds(obj.GetName()) {
			return obj.GetName()
		}
	}
	for _, obj := range c.services.List("") {
		if of := addressesOf(obj); slices.ContainsFunc(of, holds) {
			return of[slices.IndexFunc(of, holds)]
		}
	}
	return ""
}
