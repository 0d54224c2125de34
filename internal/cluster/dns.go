package cluster

import (
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/containerd"
	"github.com/setpoint-project/setpoint/internal/controllers/clusterdns"
	"github.com/setpoint-project/setpoint/internal/dns/feed"
	dnswire "github.com/setpoint-project/setpoint/internal/dns/wire"
)

// hostResolvers names the resolvers of this machine.
const hostResolvers = "/etc/resolv.conf"

// dnsSocket is where a node and its DNS server meet.
func dnsSocket(instance string) string { return filepath.Join(containerd.RunDir(instance), "dns.sock") }

// clusterDNS is what pods are told to ask: the address of the primary family,
// which every pod reaches, as a second would only be asked the same. Nobody when
// the service range is too small for the conventional address. With --dns=none
// as well: whoever serves the names then does so there.
func clusterDNS(services []netip.Prefix) []string {
	ips := clusterdns.Addresses(services)
	if len(ips) == 0 {
		return nil
	}
	return []string{ips[0].String()}
}

// dnsServers is where this node answers names: on its bridge.
func (n *node) dnsServers() (at []netip.AddrPort) {
	for _, ip := range n.host.Gateways() {
		at = append(at, netip.AddrPortFrom(ip, feed.Port))
	}
	return at
}

// runDNS serves the cluster's names on this node.
func (n *node) runDNS(p *parts, c client.Interface, gaps *gapList) {
	ips := clusterdns.Addresses(n.state.ServiceCIDRs)
	if len(ips) == 0 {
		return
	}
	f := feed.New(feed.Options{
		Client: c, Node: n.name, Logger: n.log,
		Program: func() (string, error) { return containerd.UnpackDNS(n.opts.DataDir) },
		Socket:  dnsSocket(n.state.Instance), LogFile: filepath.Join(n.opts.DataDir, "logs", "dns.log"),
		Listen: n.dnsServers(),
		Config: dnswire.Config{Domain: clusterDomain, ServiceIPs: ips, ResolvConf: hostResolvers,
			Ranges: slices.Concat(n.state.ClusterCIDRs, n.state.ServiceCIDRs)},
		Apart: func(pid int) { containerd.Apart(n.state.Instance, pid) },
	})
	gaps.add(f)
	p.run("DNS", f.Run)
}
