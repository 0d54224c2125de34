package network

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// FreeRanges picks a pod and a service range that no address and no route of
// this machine touches: 10.42.0.0/16 and 10.43.0.0/16, or the next pair.
func FreeRanges() (pods, services netip.Prefix, err error) {
	used, err := usedRanges()
	if err != nil {
		return pods, services, err
	}
	for n := 42; n < 254; n += 2 {
		pods = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n), 0, 0}), 16)
		services = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n + 1), 0, 0}), 16)
		if !overlapsAny(pods, used) && !overlapsAny(services, used) {
			return pods, services, nil
		}
	}
	return pods, services, fmt.Errorf("network: no free pair of ranges between 10.42.0.0/16 and 10.253.0.0/16; name them with --cluster-cidr and --service-cidr")
}

func overlapsAny(p netip.Prefix, used []netip.Prefix) bool {
	for _, u := range used {
		if p.Overlaps(u) {
			return true
		}
	}
	return false
}

// usedRanges lists the destinations of all routes but the default ones.
func usedRanges() ([]netip.Prefix, error) {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("network: list routes: %w", err)
	}
	var used []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil || r.Dst.IP == nil {
			continue
		}
		if p := prefixOf(r.Dst); p.Bits() > 0 {
			used = append(used, p)
		}
	}
	return used, nil
}

// DefaultAddresses are the addresses from which this machine reaches the rest of
// the world, one of each family that has a default route, that of IPv4 first.
func DefaultAddresses() (out []netip.Addr) {
	for _, f := range families {
		if a := defaultAddress(f); a.IsValid() {
			out = append(out, a)
		}
	}
	return out
}

func defaultAddress(f Family) netip.Addr {
	routes, err := netlink.RouteListFiltered(f.Number(), &netlink.Route{Dst: nil}, netlink.RT_FILTER_DST)
	if err != nil {
		return netip.Addr{}
	}
	for _, r := range routes {
		if r.Type != unix.RTN_UNICAST {
			continue
		}
		if r.Src != nil && f.Has(addrOf(r.Src)) {
			return addrOf(r.Src)
		}
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if err != nil {
			continue
		}
		addrs, err := netlink.AddrList(link, f.Number())
		if err != nil {
			continue
		}
		for _, a := range addrs {
			// Not one that is going out of use, nor one of the link alone.
			if ip := addrOf(a.IP); a.Flags&unix.IFA_F_DEPRECATED == 0 && ip.IsGlobalUnicast() && f.Has(ip) {
				return ip
			}
		}
	}
	return netip.Addr{}
}
