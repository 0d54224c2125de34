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

// NodeRoutes is the loop that routes every other node's pod ranges to that
// node's addresses. Nodes must reach each other directly (one network segment).
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

// via is where a node's pod ranges are reached.
type via struct {
	pods [len(families)]netip.Prefix
	node [len(families)]netip.Addr
}

func routeOf(n *corev1.Node) (v via) {
	pods := n.Spec.PodCIDRs
	if len(pods) == 0 {
		pods = []string{n.Spec.PodCIDR}
	}
	for i, f := range families {
		for _, text := range pods {
			if p, err := netip.ParsePrefix(text); err == nil && f.Has(p.Addr()) {
				v.pods[i] = p.Masked()
				break
			}
		}
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && f.Has(ip) {
				v.node[i] = ip
				break
			}
		}
	}
	return v
}

// planRoutes tells which routes this node should have: of each family, one for
// each other node with a pod range of its own and an address outside that
// range (a simulated node's address is inside).
func planRoutes(nodes []*corev1.Node, self string, cluster []netip.Prefix) map[netip.Prefix]netip.Addr {
	want := map[netip.Prefix]netip.Addr{}
	for _, n := range nodes {
		if n.Name == self {
			continue
		}
		v := routeOf(n)
		for i, f := range families {
			whole := f.Of(cluster)
			if v.pods[i].IsValid() && v.node[i].IsValid() && whole.Contains(v.pods[i].Addr()) && !whole.Contains(v.node[i]) {
				want[v.pods[i]] = v.node[i]
			}
		}
	}
	return want
}

// nodeRoutes are the routes of a family that the loop has made.
func (h *Host) nodeRoutes(f Family) (out []netlink.Route, err error) {
	whole := f.Of(h.ClusterCIDRs)
	if !whole.IsValid() {
		return nil, nil
	}
	routes, err := netlink.RouteListFiltered(f.Number(), &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("network: list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst != nil && whole.Contains(addrOf(r.Dst.IP)) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (r *NodeRoutes) reconcile(ctx context.Context, _ loop.Key) (loop.Outcome, error) {
	var nodes []*corev1.Node
	for _, o := range r.nodes.List("") {
		nodes = append(nodes, o.(*corev1.Node))
	}
	want := planRoutes(nodes, r.nodeName, r.host.ClusterCIDRs)
	var errs []error
	for _, f := range families {
		have, err := r.host.nodeRoutes(f)
		if err != nil {
			return loop.Outcome{}, err
		}
		for _, route := range have {
			dst := prefixOf(route.Dst)
			if want[dst] == addrOf(route.Gw) {
				delete(want, dst)
			} else if !want[dst].IsValid() {
				errs = append(errs, gone(netlink.RouteDel(&route)))
			}
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
