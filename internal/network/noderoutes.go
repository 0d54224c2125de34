package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// routeProtocol marks the routes that are ours to take away (see
// /etc/iproute2/rt_protos; 83 is assigned to nobody).
const routeProtocol = 83

// NodeRoutes is the loop that routes every other node's pod range to that
// node's address. Nodes must reach each other directly (one network segment).
type NodeRoutes struct {
	host     *Host
	nodeName string
	nodes    client.View
	loop     *loop.Loop
}

// NewNodeRoutes makes the loop for the node named nodeName.
func NewNodeRoutes(host *Host, nodeName string, c client.Interface, log *slog.Logger) *NodeRoutes {
	r := &NodeRoutes{host: host, nodeName: nodeName,
		nodes: c.View(corev1.SchemeGroupVersion.WithResource("nodes"), client.ViewOptions{})}
	r.loop = loop.New(loop.Options{Name: "noderoutes", Reconcile: r.reconcile, Workers: 1, Logger: log})
	return r
}

func (r *NodeRoutes) Name() string     { return r.loop.Name() }
func (r *NodeRoutes) Gaps() []loop.Gap { return r.loop.Gaps() }

// Run turns the loop until ctx ends; the routes stay.
func (r *NodeRoutes) Run(ctx context.Context) error {
	if err := r.nodes.WaitSynced(ctx); err != nil {
		return err
	}
	remove := r.nodes.Handle(func(old, new client.Object) {
		if old == nil || new == nil || routeOf(old.(*corev1.Node)) != routeOf(new.(*corev1.Node)) {
			r.loop.Look(loop.Key{})
		}
	})
	defer remove()
	r.loop.Look(loop.Key{})
	return r.loop.Run(ctx)
}

// via is where a node's pod range is reached.
type via struct {
	pods netip.Prefix
	node netip.Addr
}

func routeOf(n *corev1.Node) via {
	var v via
	v.pods, _ = netip.ParsePrefix(n.Spec.PodCIDR)
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			v.node, _ = netip.ParseAddr(a.Address)
			break
		}
	}
	return v
}

// planRoutes tells which routes this node should have: one for each other
// node with a pod range of its own and an address outside that range (a
// simulated node's address is inside).
func planRoutes(nodes []*corev1.Node, self string, cluster netip.Prefix) map[netip.Prefix]netip.Addr {
	want := map[netip.Prefix]netip.Addr{}
	for _, n := range nodes {
		v := routeOf(n)
		if n.Name == self || !v.pods.IsValid() || !v.node.Is4() || cluster.Contains(v.node) || !cluster.Contains(v.pods.Addr()) {
			continue
		}
		want[v.pods.Masked()] = v.node
	}
	return want
}

func (r *NodeRoutes) reconcile(ctx context.Context, _ loop.Key) (loop.Outcome, error) {
	var nodes []*corev1.Node
	for _, o := range r.nodes.List("") {
		nodes = append(nodes, o.(*corev1.Node))
	}
	want := planRoutes(nodes, r.nodeName, r.host.ClusterCIDR)
	have, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("list routes: %w", err)
	}
	var errs []error
	for _, route := range have {
		if route.Dst == nil || !r.host.ClusterCIDR.Contains(addrOf(route.Dst.IP)) {
			continue
		}
		bits, _ := route.Dst.Mask.Size()
		dst := netip.PrefixFrom(addrOf(route.Dst.IP), bits)
		if want[dst] == addrOf(route.Gw) {
			delete(want, dst)
		} else if !want[dst].IsValid() {
			errs = append(errs, gone(netlink.RouteDel(&route)))
		}
	}
	for dst, gw := range want {
		route := &netlink.Route{Dst: ipNet(dst), Gw: net.IP(gw.AsSlice()), Protocol: routeProtocol, Priority: metricBridge}
		if err := netlink.RouteReplace(route); err != nil {
			errs = append(errs, fmt.Errorf("route %s via %s: %w", dst, gw, err))
		}
	}
	return loop.Done(), errors.Join(errs...)
}
