package network

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Fenced tells whether packets to an address of a cluster stay in it: whether
// the range that has the address has its unreachable route here, so that what
// no other route leads to a pod or a service goes nowhere. It needs no root.
func Fenced(ip netip.Addr) bool {
	family := unix.AF_INET
	if ip.Is6() && !ip.Is4In6() {
		family = unix.AF_INET6
	}
	routes, err := netlink.RouteListFiltered(family, &netlink.Route{Type: unix.RTN_UNREACHABLE}, netlink.RT_FILTER_TYPE)
	if err != nil {
		return false
	}
	for _, r := range routes {
		if r.Dst == nil || r.Priority != metricUnreachable {
			continue
		}
		at, ok := netip.AddrFromSlice(r.Dst.IP)
		ones, _ := r.Dst.Mask.Size()
		if ok && ones > 0 && netip.PrefixFrom(at.Unmap(), ones).Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}
