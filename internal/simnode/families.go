package simnode

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/loop"
)

// addressesIPv6 is where nodes get their addresses of IPv6 from, as those of
// IPv4 come from Options.Addresses: the range that is set aside for benchmarks.
var addressesIPv6 = netip.MustParsePrefix("2001:2::/48")

// places gives nodes and pods an address of each family that the node has a
// range of, in the order of its ranges; of IPv4 when it has none.
type places struct{ ipv4, ipv6 *addresses }

func newPlaces(ipv4 netip.Prefix) places {
	return places{newAddresses(ipv4), newAddresses(addressesIPv6)}
}

func (p places) of(cidr string) *addresses {
	if r, err := netip.ParsePrefix(cidr); err == nil && r.Addr().Is6() {
		return p.ipv6
	}
	return p.ipv4
}

// orNone is the ranges of a node, or "" for the one that is not its own.
func orNone(cidrs []string) []string {
	if len(cidrs) == 0 {
		return []string{""}
	}
	return cidrs
}

// ofNode are the addresses of the node with a number: the same at each start.
func (p places) ofNode(i int, cidrs []string) (ips []string) {
	for _, cidr := range orNone(cidrs) {
		ips = append(ips, p.of(cidr).ofNode(i))
	}
	return ips
}

// ofPod gives a pod an address of each range, those that it had before. It
// returns the range that is used up, if one is.
func (p places) ofPod(key loop.Key, cidrs []string, had []corev1.PodIP) (ips []string, full string) {
	for _, cidr := range orNone(cidrs) {
		from, mine := p.of(cidr), ""
		for _, ip := range had {
			if addr, err := netip.ParseAddr(ip.IP); err == nil && addr.Is6() == (from == p.ipv6) {
				mine = ip.IP
			}
		}
		ip := from.ofPod(key, cidr, mine)
		if ip == "" {
			return nil, cidr
		}
		ips = append(ips, ip)
	}
	return ips, ""
}

func (p places) release(key loop.Key) {
	p.ipv4.release(key)
	p.ipv6.release(key)
}

func hostIPs(ips []string) (out []corev1.HostIP) {
	for _, ip := range ips {
		out = append(out, corev1.HostIP{IP: ip})
	}
	return out
}

func podIPs(ips []string) (out []corev1.PodIP) {
	for _, ip := range ips {
		out = append(out, corev1.PodIP{IP: ip})
	}
	return out
}

// at tells that a pod's status names these addresses.
func at(st *corev1.PodStatus, host, pod []string) bool {
	return st.HostIP == host[0] && st.PodIP == pod[0] &&
		slices.EqualFunc(st.HostIPs, host, func(h corev1.HostIP, ip string) bool { return h.IP == ip }) &&
		slices.EqualFunc(st.PodIPs, pod, func(p corev1.PodIP, ip string) bool { return p.IP == ip })
}

// addressed tells that a node has an address of each family of its ranges, and
// its name.
func addressed(list []corev1.NodeAddress, cidrs []string) bool {
	cidrs = orNone(cidrs)
	if len(list) != len(cidrs)+1 {
		return false
	}
	for i, cidr := range cidrs {
		if strings.Contains(list[i].Address, ":") != strings.Contains(cidr, ":") {
			return false
		}
	}
	return true
}
