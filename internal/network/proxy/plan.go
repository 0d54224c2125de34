// Package proxy leads service addresses to pods, by nftables rules that it
// writes over netlink, so no nft program is needed. The rules stay in force
// while Setpoint is down.
//
//	Services, EndpointSlices, Pods with host ports
//	      | Plan (pure): for each frontend, the backends
//	      v
//	Program: chains of backends, frontends that lead to them
//	      | diff against the program in force
//	      v
//	one nftables transaction (Table.Apply)
//
// A service address without a ready endpoint is refused at once (ICMP port
// unreachable; a TCP client sees "connection refused"), and so is every
// address of the service range that nothing serves.
package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	Frontends map[Frontend]string // to a name in Chains
}

func newProgram() Program {
	return Program{Chains: map[string]Chain{}, Frontends: map[Frontend]string{}}
}

func protocol(p corev1.Protocol) uint8 {
	switch p {
	case corev1.ProtocolUDP:
		return unix.IPPROTO_UDP
	case corev1.ProtocolSCTP:
		return unix.IPPROTO_SCTP
	}
	return unix.IPPROTO_TCP
}

// PlanService is the part of the program that one Service asks for on the
// node named node.
func PlanService(svc *corev1.Service, endpoints []*discoveryv1.EndpointSlice, node string) Program {
	p := newProgram()
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return p
	}
	clusterIP, err := netip.ParseAddr(svc.Spec.ClusterIP)
	if err != nil || !clusterIP.Is4() {
		return p // headless, not allocated yet, or a family that is not served
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
		p.port(svc, port, clusterIP, endpoints, node, affinity)
	}
	return p
}

func (p *Program) port(svc *corev1.Service, port *corev1.ServicePort, clusterIP netip.Addr, endpoints []*discoveryv1.EndpointSlice, node string, affinity int32) {
	proto := protocol(port.Protocol)
	internalLocal := svc.Spec.InternalTrafficPolicy != nil && *svc.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	externalLocal := svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal

	p.lead(chainName(svc, port, internalLocal), Chain{backends(endpoints, port, node, internalLocal), affinity},
		Frontend{clusterIP, proto, uint16(port.Port)})

	var external []Frontend
	if port.NodePort != 0 {
		external = append(external, Frontend{Proto: proto, Port: uint16(port.NodePort)})
	}
	addresses := slices.Clone(svc.Spec.ExternalIPs)
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP {
			addresses = append(addresses, in.IP)
		}
	}
	for _, a := range addresses {
		if addr, err := netip.ParseAddr(a); err == nil && addr.Is4() {
			external = append(external, Frontend{addr, proto, uint16(port.Port)})
		}
	}
	if len(external) > 0 {
		p.lead(chainName(svc, port, externalLocal), Chain{backends(endpoints, port, node, externalLocal), affinity}, external...)
	}
}

// lead sends frontends to a chain. Without backends they lead nowhere, and
// what comes for them is refused.
func (p *Program) lead(name string, c Chain, fronts ...Frontend) {
	if len(c.Backends) == 0 {
		return
	}
	p.Chains[name] = c
	for _, f := range fronts {
		p.Frontends[f] = name
	}
}

// chainName is stable for a service port and a traffic policy, so that the
// internal and the external address share a chain where they may.
func chainName(svc *corev1.Service, port *corev1.ServicePort, local bool) string {
	sum := sha256.Sum256([]byte(svc.Namespace + "/" + svc.Name + "/" + port.Name + "/" + string(port.Protocol) +
		"/" + strconv.Itoa(int(port.Port)) + "/" + strconv.FormatBool(local)))
	return "svc-" + hex.EncodeToString(sum[:8])
}

// backends are the endpoints that get new connections: the ready ones, or,
// when there is none, those that still serve while they end.
func backends(endpointSlices []*discoveryv1.EndpointSlice, port *corev1.ServicePort, node string, local bool) []netip.AddrPort {
	var ready, serving []netip.AddrPort
	for _, s := range endpointSlices {
		if s.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		number := slicePort(s, port)
		if number == 0 {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if local && (e.NodeName == nil || *e.NodeName != node) || len(e.Addresses) == 0 {
				continue
			}
			addr, err := netip.ParseAddr(e.Addresses[0])
			if err != nil || !addr.Is4() {
				continue
			}
			to := netip.AddrPortFrom(addr, number)
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
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready)
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
		if p.Port != nil && name == port.Name && protocol(proto) == protocol(port.Protocol) {
			return uint16(*p.Port)
		}
	}
	return 0
}

// PlanPod is the part of the program that a pod's host ports ask for.
func PlanPod(pod *corev1.Pod) Program {
	p := newProgram()
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	if pod.Spec.HostNetwork || err != nil || !addr.Is4() || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return p
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, port := range list[i].Ports {
				if port.HostPort == 0 {
					continue
				}
				front := Frontend{Proto: protocol(port.Protocol), Port: uint16(port.HostPort)}
				if ip, err := netip.ParseAddr(port.HostIP); err == nil && !ip.IsUnspecified() {
					front.Addr = ip
				}
				name := "host-" + string(pod.UID) + "-" + strconv.Itoa(int(front.Proto)) + "-" + strconv.Itoa(int(port.HostPort))
				p.lead(name, Chain{Backends: []netip.AddrPort{netip.AddrPortFrom(addr, uint16(port.ContainerPort))}}, front)
			}
		}
	}
	return p
}
