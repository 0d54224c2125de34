// Package network gives one node its pod network: a bridge with the node's
// part of the pod range, routes to the other nodes' parts, the CNI
// configuration for the container runtime, and, in package proxy, the rules
// that lead a service address to a pod.
//
// Everything is named after the cluster's instance (bridge, nftables table), so
// that clusters live side by side on one machine, and stays in force while
// Setpoint is down. Host.Down takes it away.
//
// Order matters: before anything else service and pod ranges get an
// unreachable route, so that a packet to an address that nothing serves never
// leaves the machine by its default route.
//
// Needs CAP_NET_ADMIN in the network namespace it runs in. Safe to repeat:
// what is already as wanted is left alone.
package network

import (
	"fmt"
	"net/netip"
	"regexp"
)

// Config names the network of one node.
type Config struct {
	// Instance tells clusters on one machine apart: up to 8 of a-z, 0-9.
	Instance string
	// ClusterCIDRs are the pod ranges of the whole cluster, ServiceCIDRs the
	// ranges of its service addresses: one, or one of each family.
	ClusterCIDRs, ServiceCIDRs []netip.Prefix
	// PodCIDRs are this node's parts of ClusterCIDRs: one of each, or one alone
	// where the cluster came to its second family later than the node. The
	// first address of each is the bridge's.
	PodCIDRs []netip.Prefix
}

var instancePattern = regexp.MustCompile(`^[a-z0-9]{1,8}$`)

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if !instancePattern.MatchString(c.Instance) {
		return fmt.Errorf("network: instance %q: must be 1 to 8 of a-z and 0-9", c.Instance)
	}
	for name, list := range map[string][]netip.Prefix{"cluster range": c.ClusterCIDRs, "service range": c.ServiceCIDRs, "pod range of the node": c.PodCIDRs} {
		if err := validate(name, list); err != nil {
			return err
		}
	}
	for _, pods := range c.ClusterCIDRs {
		for _, services := range c.ServiceCIDRs {
			if pods.Overlaps(services) {
				return fmt.Errorf("network: cluster range %s and service range %s overlap", pods, services)
			}
		}
	}
	for _, p := range c.PodCIDRs {
		whole := familyOf(p).Of(c.ClusterCIDRs)
		if !whole.IsValid() || whole.Bits() > p.Bits() || !whole.Contains(p.Addr()) {
			return fmt.Errorf("network: pod range of the node %s does not lie in the cluster's %s", p, c.ClusterCIDRs)
		}
		if p.Addr().BitLen()-p.Bits() < 3 {
			return fmt.Errorf("network: pod range of the node %s has fewer than 8 addresses", p)
		}
	}
	return nil
}

// validate says what is wrong with a list of ranges.
func validate(name string, list []netip.Prefix) error {
	if len(list) == 0 || len(list) > 2 || len(list) == 2 && familyOf(list[0]) == familyOf(list[1]) {
		return fmt.Errorf("network: %s %v: must be one prefix such as 10.42.0.0/16, or one of IPv4 and one of IPv6", name, list)
	}
	for _, p := range list {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("network: %s %q: must be a prefix such as 10.42.0.0/16 or fd42::/48", name, p)
		}
	}
	return nil
}

func familyOf(p netip.Prefix) Family {
	if p.Addr().Is4() {
		return IPv4
	}
	return IPv6
}

// Bridge is the name of the node's bridge.
func (c Config) Bridge() string { return bridgePrefix + c.Instance }

// Table is the name of the nftables table.
func (c Config) Table() string { return "setpoint-" + c.Instance }

// PolicyTable is the name of the nftables table of network policies.
func (c Config) PolicyTable() string { return c.Table() + "-policy" }

// Gateway is the bridge's address: the first of the node's first pod range.
func (c Config) Gateway() netip.Addr { return c.PodCIDRs[0].Masked().Addr().Next() }

// Gateways are the bridge's addresses, one for each of the node's pod ranges.
func (c Config) Gateways() (out []netip.Addr) {
	for _, p := range c.PodCIDRs {
		out = append(out, p.Masked().Addr().Next())
	}
	return out
}
