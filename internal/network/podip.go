package network

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// PodIP is the address that a pod has of a family; not valid when it has none.
func PodIP(pod *corev1.Pod, f Family) netip.Addr {
	if ip, err := netip.ParseAddr(pod.Status.PodIP); err == nil && f.Has(ip) {
		return ip
	}
	for _, one := range pod.Status.PodIPs {
		if ip, err := netip.ParseAddr(one.IP); err == nil && f.Has(ip) {
			return ip
		}
	}
	return netip.Addr{}
}
