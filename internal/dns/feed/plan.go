package feed

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/dns/wire"
)

// plan is what a Service's names follow from; nil: it has none yet.
func plan(svc *corev1.Service, endpoints []*discoveryv1.EndpointSlice) *wire.Service {
	s := &wire.Service{Namespace: svc.Namespace, Name: svc.Name}
	switch {
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		s.Target = strings.ToLower(svc.Spec.ExternalName)
		return s
	case svc.Spec.ClusterIP == corev1.ClusterIPNone:
		s.Endpoints = endpointsOf(endpoints)
		return s
	}
	for _, text := range svc.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			s.IPs = append(s.IPs, ip)
		}
	}
	if len(s.IPs) == 0 {
		return nil
	}
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if p.Name != "" {
			s.Ports = append(s.Ports, wire.Port{Name: p.Name, Protocol: protocol(&p.Protocol), Number: uint16(p.Port)})
		}
	}
	return s
}

// endpointsOf lists those that are ready: where a service publishes others as
// well, the slices call those ready too.
func endpointsOf(list []*discoveryv1.EndpointSlice) (out []wire.Endpoint) {
	for _, slice := range list {
		if slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		ports := portsOf(slice)
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
				continue
			}
			ip, err := netip.ParseAddr(e.Addresses[0]) // the others mean the same, by the API's word
			if err != nil {
				continue
			}
			one := wire.Endpoint{IP: ip, Ports: ports}
			if e.Hostname != nil {
				one.Hostname = *e.Hostname
			}
			out = append(out, one)
		}
	}
	// In one order, and once, though an endpoint may be in two slices while it
	// moves from one to the other.
	slices.SortFunc(out, func(a, b wire.Endpoint) int {
		if c := a.IP.Compare(b.IP); c != 0 {
			return c
		}
		return strings.Compare(a.Hostname, b.Hostname)
	})
	return slices.CompactFunc(out, func(a, b wire.Endpoint) bool {
		return a.IP == b.IP && a.Hostname == b.Hostname && slices.Equal(a.Ports, b.Ports)
	})
}

func portsOf(slice *discoveryv1.EndpointSlice) (out []wire.Port) {
	for _, p := range slice.Ports {
		if p.Name != nil && *p.Name != "" && p.Port != nil {
			out = append(out, wire.Port{Name: *p.Name, Protocol: protocol(p.Protocol), Number: uint16(*p.Port)})
		}
	}
	return out
}

func protocol(p *corev1.Protocol) string {
	if p == nil || *p == "" {
		return "tcp"
	}
	return strings.ToLower(string(*p))
}
