package proxy

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/loop"
)

// serviceRanges are those that service addresses come from: the cluster's own,
// and those of ServiceCIDRs that are of its families. A range that has addresses
// of pods, of this machine or of another cluster here is left out, and told by the
// name of its ServiceCIDR: what is for a service range and served by nothing is
// refused, and so they would be.
func (p *Proxy) serviceRanges() (ranges []netip.Prefix, unfit map[string]netip.Prefix, err error) {
	ranges = slices.Clone(p.host.ServiceCIDRs)
	var own []netip.Addr
	var beside []netip.Prefix
	for _, o := range client.Listed[*networkingv1.ServiceCIDR](p.ranges, "") {
		for _, text := range o.Spec.CIDRs {
			r, err := netip.ParsePrefix(text)
			ofCluster := slices.ContainsFunc(p.host.Families(), func(f network.Family) bool { return f.Has(r.Addr()) })
			if err != nil || !ofCluster || slices.Contains(ranges, r.Masked()) {
				continue
			}
			if own == nil {
				if own, err = ownAddresses(); err != nil {
					return nil, nil, err
				}
				if beside, err = p.host.Beside(); err != nil {
					return nil, nil, err
				}
			}
			if slices.ContainsFunc(p.host.ClusterCIDRs, r.Overlaps) || slices.ContainsFunc(own, r.Contains) || slices.ContainsFunc(beside, r.Overlaps) {
				if unfit == nil {
					unfit = map[string]netip.Prefix{}
				}
				unfit[o.Name] = r
				continue
			}
			ranges = append(ranges, r.Masked())
		}
	}
	return ranges, unfit, nil
}

func ownAddresses() (out []netip.Addr, err error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}

// reconcileRanges gives each range its unreachable route, its rules and its
// route to the bridge, in this order, and takes those of ranges that are no more.
func (p *Proxy) reconcileRanges() (loop.Outcome, error) {
	ranges, unfit, err := p.serviceRanges()
	if err != nil {
		return loop.Outcome{}, err
	}
	had, err := p.host.RoutedServices()
	if err != nil {
		return loop.Outcome{}, err
	}
	var added []netip.Prefix
	for _, r := range ranges {
		if !slices.Contains(had, r) {
			added = append(added, r)
		}
	}
	if err := p.host.FenceRanges(added); err != nil {
		return loop.Outcome{}, err
	}
	for _, t := range p.tables {
		if err := t.Refuse(ranges); err != nil {
			return loop.Outcome{}, err
		}
	}
	if err := p.host.RouteServices(added); err != nil {
		return loop.Outcome{}, err
	}
	for _, r := range had {
		if !slices.Contains(ranges, r) {
			if err := p.host.ForgetServices(r); err != nil {
				return loop.Outcome{}, err
			}
		}
	}
	if len(unfit) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(unfit))) // the same at each look, or the gap would seem a new one
		return loop.WaitFor("ServiceCIDR "+name, "addresses of pods, of this node or of another cluster here are in its range %s, so this node does not serve it", unfit[name]), nil
	}
	return loop.Done(), nil
}
