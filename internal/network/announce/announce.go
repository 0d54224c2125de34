// Package announce is the loop by which one node answers for each address that
// load balancers have from a pool: it gives its bridge the address, so that the
// kernel answers who asks the network for it (ARP), and tells the network that
// it moved there. For IPv6 the kernel answers (neighbour discovery) only on the
// link that has the address: the links that reach the pool have it too.
//
// Which node it is follows from the nodes that are ready, and, where a
// service's traffic stays on the node, have an endpoint: each node finds the
// same by itself, and when one falls silent another takes its addresses over.
// While two nodes see it differently, both may answer for a moment.
//
// Addresses stay while Setpoint is down; Withdraw takes them away. Nodes must
// share a network segment whose hosts reach the pool without a router, and the
// kernel must answer for every address of its own (arp_ignore 0, the default).
package announce

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Options of the loop.
type Options struct {
	Client client.Interface
	Node   string
	Link   string // the bridge
	// Pool tells whether an address is one of the pool's.
	Pool   func(netip.Addr) bool
	Logger *slog.Logger
}

// Loop announces.
type Loop struct {
	opts                    Options
	services, slices, nodes client.View
	loop                    *loop.Loop
}

const (
	balanced  = "announce.balanced"
	byService = "service"
)

// only is the one key: addresses are few.
var only = loop.Key{Name: "addresses"}

// New makes the loop; Run turns it.
func New(o Options) *Loop {
	l := &Loop{opts: o,
		services: o.Client.View(client.Services, client.ViewOptions{}),
		slices:   o.Client.View(client.EndpointSlices, client.ViewOptions{}),
		nodes:    o.Client.View(client.Nodes, client.ViewOptions{})}
	l.services.Index(balanced, func(obj client.Object) []string {
		if svc, ok := obj.(*corev1.Service); ok && len(svc.Status.LoadBalancer.Ingress) > 0 {
			return []string{balanced}
		}
		return nil
	})
	l.slices.Index(byService, func(o client.Object) []string {
		if svc := o.GetLabels()[discoveryv1.LabelServiceName]; svc != "" {
			return []string{o.GetNamespace() + "/" + svc}
		}
		return nil
	})
	l.loop = loop.New(loop.Options{Name: "announce", Reconcile: l.reconcile, Workers: 1, Logger: o.Logger})
	return l
}

func (l *Loop) Name() string     { return l.loop.Name() }
func (l *Loop) Gaps() []loop.Gap { return l.loop.Gaps() }

// Run turns the loop until ctx ends; the addresses stay.
func (l *Loop) Run(ctx context.Context) error {
	for _, v := range []client.View{l.services, l.slices, l.nodes} {
		if err := v.WaitSynced(ctx); err != nil {
			l.loop.Stop()
			return err
		}
	}
	l.loop.Look(only)
	defer l.services.Handle(func(old, new client.Object) {
		for _, obj := range []client.Object{old, new} {
			if svc, ok := obj.(*corev1.Service); ok && len(svc.Status.LoadBalancer.Ingress) > 0 {
				l.loop.Look(only)
			}
		}
	})()
	defer l.nodes.Handle(func(old, new client.Object) {
		if fit(old) != fit(new) {
			l.loop.Look(only)
		}
	})()
	defer l.slices.Handle(func(old, new client.Object) {
		for _, obj := range []client.Object{old, new} {
			if obj == nil {
				continue
			}
			if svc := client.In[*corev1.Service](l.services, obj.GetNamespace(), obj.GetLabels()[discoveryv1.LabelServiceName]); svc != nil && local(svc) {
				l.loop.Look(only)
			}
		}
	})()
	var following sync.WaitGroup
	following.Go(func() { l.follow(ctx, func() { l.loop.Look(only) }) })
	defer following.Wait()
	return l.loop.Run(ctx)
}

// follow looks whenever a link gets or loses an address of IPv6, until ctx ends:
// one that has come to reach the pool is to have the pool's addresses, and one
// that was down has lost all it had. It looks once it follows.
func (l *Loop) follow(ctx context.Context, look func()) {
	for ctx.Err() == nil {
		changes := make(chan netlink.AddrUpdate)
		if err := netlink.AddrSubscribe(changes, ctx.Done()); err != nil {
			l.opts.Logger.Warn("cannot follow the addresses of links", "error", err)
			return
		}
		look()
		for c := range changes { // ends when too many came at once, too
			if matters(c.LinkAddress.IP) {
				look()
			}
		}
	}
}

// matters tells whether an address may be that of a network of the pool's that
// loses what it has with its link: of IPv6, and not the link's own.
func matters(addr net.IP) bool {
	ip, _ := netip.AddrFromSlice(addr)
	return ip.Unmap().Is6() && ip.IsGlobalUnicast()
}

func local(svc *corev1.Service) bool {
	return svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && len(svc.Status.LoadBalancer.Ingress) > 0
}

// fit tells whether a node may answer for addresses.
func fit(obj client.Object) bool {
	node, ok := obj.(*corev1.Node)
	if !ok || node.DeletionTimestamp != nil {
		return false
	}
	_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	return !excluded && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// wanted are the addresses that this node answers for.
func (l *Loop) wanted() map[netip.Addr]bool {
	var nodes []string
	for _, obj := range l.nodes.List("") {
		if fit(obj) {
			nodes = append(nodes, obj.GetName())
		}
	}
	want := map[netip.Addr]bool{}
	for _, svc := range client.Indexed[*corev1.Service](l.services, balanced, balanced) {
		among := nodes
		if local(svc) {
			among = l.withEndpoints(svc, nodes)
		}
		for _, in := range svc.Status.LoadBalancer.Ingress {
			if ip, err := netip.ParseAddr(in.IP); err == nil && l.opts.Pool(ip) && chosen(among, ip) == l.opts.Node {
				want[ip] = true
			}
		}
	}
	return want
}

func (l *Loop) withEndpoints(svc *corev1.Service, nodes []string) (out []string) {
	has := map[string]bool{}
	for _, s := range client.Indexed[*discoveryv1.EndpointSlice](l.slices, byService, svc.Namespace+"/"+svc.Name) {
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; e.NodeName != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				has[*e.NodeName] = true
			}
		}
	}
	for _, node := range nodes {
		if has[node] {
			out = append(out, node)
		}
	}
	return out
}

// chosen is the node that answers for an address: that with the greatest hash
// of both, so that few addresses move when a node comes or goes.
func chosen(nodes []string, ip netip.Addr) (best string) {
	var most uint64
	for _, node := range nodes {
		h := fnv.New64a()
		fmt.Fprint(h, ip, node)
		if sum := h.Sum64(); best == "" || sum > most || sum == most && node < best {
			best, most = node, sum
		}
	}
	return best
}

func (l *Loop) reconcile(_ context.Context, _ loop.Key) (loop.Outcome, error) {
	want := l.wanted()
	link, err := netlink.LinkByName(l.opts.Link)
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("link %s: %w", l.opts.Link, err)
	}
	errs := []error{prune(link, want)}
	for ip := range want {
		if err := take(link, ip); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := tell(ip); err != nil {
			errs = append(errs, err)
		}
	}
	return loop.Done(), errors.Join(errs...)
}

// take gives an address to the bridge and, of IPv6, to the links that reach its
// network. The bridge's is first: by it a later life knows which those are.
func take(bridge netlink.Link, ip netip.Addr) error {
	if err := give(bridge, ip); err != nil || ip.Is4() {
		return err
	}
	links, err := reaching(ip)
	if err != nil {
		return err
	}
	for i := range links {
		link, err := netlink.LinkByIndex(links[i].Index)
		if err == nil {
			err = give(link, ip)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func give(link netlink.Link, ip netip.Addr) error {
	if err := netlink.AddrAdd(link, single(ip)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("give %s the address %s: %w", link.Attrs().Name, ip, err)
	}
	return nil
}

// single is an address for itself alone. Of IPv6 it is good at once, though the
// node that had it before may not be through with it, and deprecated, so that
// this node's own connections do not come from it.
func single(ip netip.Addr) *netlink.Addr {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}}
	if ip.Is6() {
		a.Flags, a.ValidLft, a.PreferedLft = unix.IFA_F_NODAD, forever, 0
	}
	return a
}

// forever is a lifetime without end.
const forever = 1<<32 - 1

// Withdraw takes away what an earlier start answered for, where there is no pool
// any more, or the cluster goes. Without the bridge there is nothing.
func Withdraw(bridge string) error {
	link, err := netlink.LinkByName(bridge)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	} else if err != nil {
		return fmt.Errorf("link %s: %w", bridge, err)
	}
	return prune(link, nil)
}

// prune takes the addresses away that are not wanted, and those out of want that
// are there. The bridge is ours: what it has besides its own addresses, which
// are of a range, was given to it here, maybe from a pool that was another.
func prune(bridge netlink.Link, want map[netip.Addr]bool) error {
	have, err := netlink.AddrList(bridge, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("addresses of %s: %w", bridge.Attrs().Name, err)
	}
	var errs []error
	for i := range have {
		ip, whole := addrOf(&have[i])
		switch {
		case !whole:
		case !want[ip]:
			errs = append(errs, drop(bridge, ip))
		case ip.Is4():
			delete(want, ip)
		default:
			links, err := reaching(ip)
			if err == nil && !slices.ContainsFunc(links, func(l net.Interface) bool { return !has(&l, ip) }) {
				delete(want, ip)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// drop takes an address from all links, from the bridge last.
func drop(bridge netlink.Link, ip netip.Addr) error {
	if ip.Is6() {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("links: %w", err)
		}
		for _, link := range links {
			if link.Attrs().Index == bridge.Attrs().Index {
				continue
			}
			if err := netlink.AddrDel(link, single(ip)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
				return fmt.Errorf("take the address %s from %s: %w", ip, link.Attrs().Name, err)
			}
		}
	}
	if err := netlink.AddrDel(bridge, single(ip)); err != nil {
		return fmt.Errorf("take the address %s from %s: %w", ip, bridge.Attrs().Name, err)
	}
	return nil
}

// addrOf is a link's address, and whether it is one for itself alone.
func addrOf(a *netlink.Addr) (ip netip.Addr, whole bool) {
	ip, _ = netip.AddrFromSlice(a.IP)
	ip = ip.Unmap()
	bits, _ := a.Mask.Size()
	return ip, bits == ip.BitLen()
}
