package cluster

import (
	"net/netip"
	"slices"

	"github.com/setpoint-project/setpoint/internal/apiserver/reach"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

// resolver finds where webhooks and other servers are. This machine may be no
// node of the cluster: then a service's address would lead out of the machine.
func (c *controlPlane) resolver() *reach.Resolver {
	return &reach.Resolver{Get: c.get, List: c.list, Fenced: network.Fenced, Simulated: simnode.Simulated,
		Ours: func(ip netip.Addr) bool {
			return slices.ContainsFunc(slices.Concat(c.state.ClusterCIDRs, c.state.ServiceCIDRs), func(p netip.Prefix) bool { return p.Contains(ip) })
		}}
}
