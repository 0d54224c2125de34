// Package network gives one node its pod network: a bridge with the node's
// part of the pod range, routes to the other nodes' parts, the CNI
// configuration for the container runtime, and, in package proxy, the rules
// that lead a service address to a pod.
//
// Everything is named after the cluster's instance (bridge, nftables table), so
// that clusters live side by side on one machine, and stays in force while
// Setpoint is down. Host.Down takes it away.
//
// Order matters: before anything else the service and the pod range get an
// unreachable route, so that a packet to an address that nothing serves never
// leaves the machine by its default route.
//
// Needs CAP_NET_ADMIN in the network namespace it runs in. Safe to repeat:
// what is already as wanted is left alone.
package network

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
)

// Config names the network of one node.
type Config struct {
	// Instance tells clusters on one machine apart: up to 8 of a-z, 0-9.
	Instance string
	// ClusterCIDR is the pod range of the whole cluster, ServiceCIDR the range
	// of the service addresses; IPv4.
	ClusterCIDR, ServiceCIDR netip.Prefix
	// PodCIDR is this node's part of ClusterCIDR. Its first address is the
	// bridge's.
	PodCIDR netip.Prefix
}

var instancePattern = regexp.MustCompile(`^[a-z0-9]{1,8}$`)

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if !instancePattern.MatchString(c.Instance) {
		return fmt.Errorf("network: instance %q: must be 1 to 8 of a-z and 0-9", c.Instance)
	}
	for name, p := range map[string]netip.Prefix{"cluster range": c.ClusterCIDR, "service range": c.ServiceCIDR, "pod range of the node": c.PodCIDR} {
		if !p.IsValid() || !p.Addr().Is4() {
			return fmt.Errorf("network: %s %q: must be an IPv4 prefix such as 10.42.0.0/16", name, p)
		}
	}
	if c.ClusterCIDR.Overlaps(c.ServiceCIDR) {
		return fmt.Errorf("network: cluster range %s and service range %s overlap", c.ClusterCIDR, c.ServiceCIDR)
	}
	if c.ClusterCIDR.Bits() > c.PodCIDR.Bits() || !c.ClusterCIDR.Contains(c.PodCIDR.Addr()) {
		return fmt.Errorf("network: pod range of the node %s does not lie in the cluster range %s", c.PodCIDR, c.ClusterCIDR)
	}
	if c.PodCIDR.Bits() > 29 {
		return errors.New("network: pod range of the node is smaller than /29")
	}
	return nil
}

// Bridge is the name of the node's bridge.
func (c Config) Bridge() string { return "sp-" + c.Instance }

// Table is the name of the nftables table.
func (c Config) Table() string { return "setpoint-" + c.Instance }

// PolicyTable is the name of the nftables table of network policies.
func (c Config) PolicyTable() string { return c.Table() + "-policy" }

// Gateway is the bridge's address: the first of the node's pod range.
func (c Config) Gateway() netip.Addr { return c.PodCIDR.Masked().Addr().Next() }
