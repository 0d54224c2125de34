// Package proxy leads service addresses to pods, by nftables rules that it
// writes over netlink, so no nft program is needed. The rules stay in force
// while Setpoint is down.
//
//	Services, EndpointSlices, Pods with host ports
//	      | Plan (pure): for each frontend, the backends
//	      v
//	Program: chains of backends, gates before them, frontends that lead to either
//	      | diff against the program in force
//	      v
//	one nftables transaction (Table.Change)
//
// All this is there for each family of addresses, with a table of its own: a
// Service that has cluster IPs of both has a Program of each, from slices of
// each.
//
// A service address without a ready endpoint is refused at once (ICMP port
// unreachable; a TCP client sees "connection refused"), and so is every
// address of the service ranges that nothing serves.
package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/network"
)

// Frontend is an address that clients connect to. The zero Addr stands for
// every address of this machine but loopback (node ports and host ports).
type Frontend struct {
	Addr  netip.Addr
	Proto uint8 // unix.IPPROTO_TCP, _UDP, _SCTP
	Port  uint16
}

// Chain is a set of backends among which each new connection picks one.
type Chain struct {
	Backends []netip.AddrPort // sorted
	// Affinity, when not 0, keeps a client at the backend it first got for
	// that many seconds since its last connection.
	Affinity int32
}

func (c Chain) equal(o Chain) bool {
	return c.Affinity == o.Affinity && slices.Equal(c.Backends, o.Backends)
}

// Program is what the rules do.
type Program struct {
	Chains    map[string]Chain
	Gates     map[string]Gate
	Frontends map[Frontend]string // to a name in Chains or Gates
}

func newProgram() Program {
	return Program{Chains: map[string]Chain{}, Gates: map[string]Gate{}, Frontends: map[Frontend]string{}}
}

func (p Program) empty() bool {
	return len(p.Chains) == 0 && len(p.Gates) == 0 && len(p.Frontends) == 0
}

// Self is the node that a plan is for.
type Self struct{ Name, Zone string }

// PlanService is the part of a family's program that one Service asks for on a
// node.
func PlanService(svc *corev1.Service, endpoints []*discoveryv1.EndpointSlice, self Self, f network.Family) Program {
	p := newProgram()
	clusterIP := clusterIPOf(svc, f)
	if !clusterIP.IsValid() {
		return p
	}
	var ofFamily []*discoveryv1.EndpointSlice
	for _, s := range endpoints {
		if s.AddressType == f.AddressType() {
			ofFamily = append(ofFamily, s)
		}
	}
	var affinity int32
	if svc.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		affinity = corev1.DefaultClientIPServiceAffinitySeconds
		if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			affinity = *c.ClientIP.TimeoutSeconds
		}
	}
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		p.port(svc, port, clusterIP, ofFamily, self, affinity, f)
	}
	return p
}

// clusterIPOf is the cluster IP that a service has of a family; not valid when
// it has none, is headless, or is only another name.
func clusterIPOf(svc *corev1.Service, f network.Family) netip.Addr {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return netip.Addr{}
	}
	list := svc.Spec.ClusterIPs
	if len(list) == 0 {
		list = []string{svc.Spec.ClusterIP}
	}
	for _, text := range list {
		if ip, err := netip.ParseAddr(text); err == nil && f.Has(ip) {
			return ip
		}
	}
	return netip.Addr{}
}

func (p *Program) port(svc *corev1.Service, port *corev1.ServicePort, clusterIP netip.Addr, endpoints []*discoveryv1.EndpointSlice, self Self, affinity int32, f network.Family) {
	proto := network.Protocol(port.Protocol)
	internalLocal := svc.Spec.InternalTrafficPolicy != nil && *svc.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	externalLocal := svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	chain := func(local bool) Chain { return Chain{backends(endpoints, port, self, local, f), affinity} }

	p.lead(chainName(svc, port, policy(internalLocal)), chain(internalLocal), Frontend{clusterIP, proto, uint16(port.Port)})

	var external, balanced []Frontend
	if port.NodePort != 0 {
		external = append(external, Frontend{Proto: proto, Port: uint16(port.NodePort)})
	}
	for _, a := range svc.Spec.ExternalIPs {
		if addr, err := netip.ParseAddr(a); err == nil && f.Has(addr) {
			external = append(external, Frontend{addr, proto, uint16(port.Port)})
		}
	}
	for _, addr := range balancerAddresses(svc, f) {
		balanced = append(balanced, Frontend{addr, proto, uint16(port.Port)})
	}
	if len(external)+len(balanced) == 0 {
		return
	}
	to := p.external(svc, port, chain, externalLocal)
	if to == "" {
		return
	}
	for _, f := range external {
		p.Frontends[f] = to
	}
	if sources := sourceRanges(svc, f); len(sources) > 0 && len(balanced) > 0 {
		to = p.gate(chainName(svc, port, "balancer"), Gate{Sources: sources, Then: to})
	}
	for _, f := range balanced {
		p.Frontends[f] = to
	}
}

// external adds what clients from outside are led to, and returns its name; ""
// when nobody is there for them.
func (p *Program) external(svc *corev1.Service, port *corev1.ServicePort, chain func(local bool) Chain, local bool) string {
	everywhere := chainName(svc, port, policy(false))
	if p.lead(everywhere, chain(false)); !local {
		return p.known(everywhere)
	}
	here := chainName(svc, port, policy(true))
	p.lead(here, chain(true))
	// Those within the cluster are not bound to this node's endpoints: they do
	// not come by way of a balancer that knows where these are.
	g := Gate{Inside: p.known(everywhere), Then: p.known(here)}
	if g.Inside == "" {
		return ""
	}
	return p.gate(chainName(svc, port, "external"), g)
}

// known is the name if there is a chain of it, else "".
func (p *Program) known(name string) string {
	if _, ok := p.Chains[name]; ok {
		return name
	}
	return ""
}

// lead adds a chain, and sends frontends to it. Without backends they lead
// nowhere, and what comes for them is refused.
func (p *Program) lead(name string, c Chain, fronts ...Frontend) {
	if len(c.Backends) == 0 {
		return
	}
	p.Chains[name] = c
	for _, f := range fronts {
		p.Frontends[f] = name
	}
}

// policy names the chains of a traffic policy.
func policy(local bool) string { return strconv.FormatBool(local) }

// chainName is stable for a service port and a use, so that the internal and
// the external address share a chain where they may.
func chainName(svc *corev1.Service, port *corev1.ServicePort, use string) string {
	sum := sha256.Sum256([]byte(svc.Namespace + "/" + svc.Name + "/" + port.Name + "/" + string(port.Protocol) +
		"/" + strconv.Itoa(int(port.Port)) + "/" + use))
	return "svc-" + hex.EncodeToString(sum[:8])
}

// backends are the endpoints that get new connections: the ready ones, or,
// when there is none, those that still serve while they end. Of these, with
// local only the node's, else those that are meant for it.
func backends(endpointSlices []*discoveryv1.EndpointSlice, port *corev1.ServicePort, self Self, local bool, f network.Family) []netip.AddrPort {
	var ready, serving []candidate
	for _, s := range endpointSlices {
		number := slicePort(s, port)
		if number == 0 {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if local && !onNode(e, self.Name) || len(e.Addresses) == 0 {
				continue
			}
			addr, err := netip.ParseAddr(e.Addresses[0])
			if err != nil || !f.Has(addr) {
				continue
			}
			to := candidate{netip.AddrPortFrom(addr, number), e.Hints}
			switch c := e.Conditions; {
			case c.Ready == nil || *c.Ready:
				ready = append(ready, to)
			case c.Serving != nil && *c.Serving && c.Terminating != nil && *c.Terminating:
				serving = append(serving, to)
			}
		}
	}
	if len(ready) == 0 {
		ready = serving
	}
	if !local {
		ready = nearest(ready, self)
	}
	out := make([]netip.AddrPort, len(ready))
	for i, c := range ready {
		out[i] = c.to
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

func onNode(e *discoveryv1.Endpoint, node string) bool {
	return e.NodeName != nil && *e.NodeName == node
}

// slicePort is the number that a slice has for a service port; 0 for none.
func slicePort(s *discoveryv1.EndpointSlice, port *corev1.ServicePort) uint16 {
	for _, p := range s.Ports {
		name, proto := "", corev1.ProtocolTCP
		if p.Name != nil {
			name = *p.Name
		}
		if p.Protocol != nil {
			proto = *p.Protocol
		}
		if p.Port != nil && name == port.Name && network.Protocol(proto) == network.Protocol(port.Protocol) {
			return uint16(*p.Port)
		}
	}
	return 0
}

// PlanPod is the part of a family's program that a pod's host ports ask for.
func PlanPod(pod *corev1.Pod, f network.Family) Program {
	p := newProgram()
	addr := network.PodIP(pod, f)
	if !addr.IsValid() || pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return p
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, port := range list[i].Ports {
				if port.HostPort == 0 {
					continue
				}
				front := Frontend{Proto: network.Protocol(port.Protocol), Port: uint16(port.HostPort)}
				if ip, err := netip.ParseAddr(port.HostIP); err == nil {
					// 0.0.0.0 is every address of IPv4, :: every one of IPv6.
					if !f.Has(ip) {
						continue
					}
					if !ip.IsUnspecified() {
						front.Addr = ip
					}
				}
				name := "host-" + string(pod.UID) + "-" + strconv.Itoa(int(front.Proto)) + "-" + strconv.Itoa(int(port.HostPort))
				p.lead(name, Chain{Backends: []netip.AddrPort{netip.AddrPortFrom(addr, uint16(port.ContainerPort))}}, front)
			}
		}
	}
	return p
}
