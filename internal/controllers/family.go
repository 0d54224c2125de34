package controllers

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// FamilyOf is the family of an address by its name in the API, where
// discovery.k8s.io has the same for AddressType; "" when it is not valid.
func FamilyOf(ip netip.Addr) corev1.IPFamily {
	switch {
	case !ip.IsValid():
		return ""
	case ip.Is4():
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}
