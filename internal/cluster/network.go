package cluster

import (
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/clusterdns"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslicemirroring"
	"github.com/setpoint-project/setpoint/internal/controllers/loadbalancer"
	"github.com/setpoint-project/setpoint/internal/controllers/servicecidr"
	"github.com/setpoint-project/setpoint/internal/network/announce"
	"github.com/setpoint-project/setpoint/internal/network/policy"
)

// startNetworkLoops runs the loops that depend on how the cluster's network is
// set up.
func startNetworkLoops(p *parts, o func(name string) controllers.Options, ranges Ranges, gaps *gapList) error {
	var list []controllers.Controller
	if ips := clusterdns.Addresses(ranges.Service); len(ips) > 0 && !ranges.NoDNS {
		list = append(list, clusterdns.New(o("cluster-dns-controller"), ips))
	}
	pool, err := loadbalancer.ParsePool(ranges.LoadBalancers)
	if err != nil {
		return err
	}
	if !pool.Off() {
		list = append(list, loadbalancer.New(o("service-lb-controller"), pool))
	}
	list = append(list,
		endpointslicemirroring.New(o("endpoint-slice-mirroring-controller")),
		servicecidr.NewAddresses(o("service-ip-address-controller")),
		servicecidr.NewRanges(o("service-cidr-controller"), ranges.Service))
	for _, l := range list {
		gaps.add(l)
		p.run(l.Name(), l.Run)
	}
	return nil
}

// runPolicies enforces network policies on this node.
func (n *node) runPolicies(p *parts, c client.Interface, gaps *gapList) {
	l := policy.New(policy.Options{Client: c, Host: n.host, Node: n.name, DNS: n.dnsServers(), Logger: n.log})
	gaps.add(l)
	p.run(l.Name(), l.Run)
}

// runAnnounce answers for the addresses that load balancers have from a pool.
func (n *node) runAnnounce(p *parts, c client.Interface, gaps *gapList) error {
	pool, err := loadbalancer.ParsePool(n.opts.LoadBalancerPool)
	switch {
	case err != nil:
		return err
	case pool.Off() || pool.Nodes():
		return announce.Withdraw(n.host.Bridge())
	}
	l := announce.New(announce.Options{Client: c, Node: n.name, Link: n.host.Bridge(), Pool: pool.Contains, Logger: n.log})
	gaps.add(l)
	p.run(l.Name(), l.Run)
	return nil
}
