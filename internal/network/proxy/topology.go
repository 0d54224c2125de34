package proxy

import (
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// candidate is an endpoint that could get connections.
type candidate struct {
	to    netip.AddrPort
	hints *discoveryv1.EndpointHints
}

// nearest keeps the candidates that are meant for the node, or else for its
// zone. Hints count only where every candidate has one: while some have none,
// they are being changed, and nobody is to be left without an endpoint.
//
// https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-distribution
func nearest(all []candidate, self Self) []candidate {
	if near, ok := meant(all, func(h *discoveryv1.EndpointHints) (some, mine bool) {
		return len(h.ForNodes) > 0, slices.ContainsFunc(h.ForNodes, func(n discoveryv1.ForNode) bool { return n.Name == self.Name })
	}); ok {
		return near
	}
	if self.Zone == "" {
		return all
	}
	if near, ok := meant(all, func(h *discoveryv1.EndpointHints) (some, mine bool) {
		return len(h.ForZones) > 0, slices.ContainsFunc(h.ForZones, func(z discoveryv1.ForZone) bool { return z.Name == self.Zone })
	}); ok {
		return near
	}
	return all
}

// meant returns those with a hint that is mine; false when one has no hint of
// the kind, or none is mine.
func meant(all []candidate, look func(*discoveryv1.EndpointHints) (some, mine bool)) (near []candidate, ok bool) {
	for _, c := range all {
		if c.hints == nil {
			return nil, false
		}
		some, mine := look(c.hints)
		if !some {
			return nil, false
		}
		if mine {
			near = append(near, c)
		}
	}
	return near, len(near) > 0
}
