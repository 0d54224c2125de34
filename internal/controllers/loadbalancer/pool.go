package loadbalancer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/controllers"
)

// Pool is where the addresses of load balancers come from: those of the nodes,
// or ranges of their own. The zero value is the nodes'.
type Pool struct {
	ranges []addresses
	off    bool
}

// addresses is a range, both ends included.
type addresses struct{ first, last netip.Addr }

func (a addresses) contains(ip netip.Addr) bool {
	return a.first.Compare(ip) <= 0 && ip.Compare(a.last) <= 0
}

// ParsePool reads what --load-balancer-pool says: "nodes", "none", or ranges
// such as 192.0.2.16/28, 192.0.2.10-192.0.2.20 or fd00:7::/120, with commas
// between.
func ParsePool(text string) (Pool, error) {
	switch text {
	case "", "nodes":
		return Pool{}, nil
	case "none":
		return Pool{off: true}, nil
	}
	var p Pool
	for one := range strings.SplitSeq(text, ",") {
		r, err := parseRange(strings.TrimSpace(one))
		if err != nil {
			return Pool{}, err
		}
		for _, had := range p.ranges {
			if had.contains(r.first) || r.contains(had.first) {
				return Pool{}, fmt.Errorf("%s overlaps %s-%s", one, had.first, had.last)
			}
		}
		p.ranges = append(p.ranges, r)
	}
	return p, nil
}

func parseRange(text string) (r addresses, err error) {
	wrong := fmt.Errorf("%q: must be nodes, none, or ranges such as 192.0.2.16/28, 192.0.2.10-192.0.2.20 or fd00:7::/120", text)
	if from, to, ok := strings.Cut(text, "-"); ok {
		first, err1 := netip.ParseAddr(from)
		last, err2 := netip.ParseAddr(to)
		if err1 != nil || err2 != nil || !plain(first) || !plain(last) || first.Is4() != last.Is4() || last.Less(first) {
			return r, wrong
		}
		return addresses{first, last}, nil
	}
	if ip, err := netip.ParseAddr(text); err == nil && plain(ip) {
		return addresses{ip, ip}, nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !plain(p.Addr()) || p.Addr().BitLen()-p.Bits() > mostBits {
		return r, wrong
	}
	last := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	return addresses{p.Masked().Addr(), end}, nil
}

// mostBits are those of a range's addresses that may differ.
const mostBits = 20

// plain addresses are of one family, and mean the same on every machine.
func plain(ip netip.Addr) bool { return !ip.Is4In6() && ip.Zone() == "" }

// Off tells that nobody is to be given an address: another balancer does it.
func (p Pool) Off() bool { return p.off }

// Nodes tells that services are reached at the nodes' addresses.
func (p Pool) Nodes() bool { return !p.off && len(p.ranges) == 0 }

// Contains tells whether an address is of the pool's ranges.
func (p Pool) Contains(ip netip.Addr) bool {
	for _, r := range p.ranges {
		if r.contains(ip) {
			return true
		}
	}
	return false
}

// Overlaps tells whether an address of the pool's ranges lies in r.
func (p Pool) Overlaps(r netip.Prefix) bool {
	for _, one := range p.ranges {
		if r.Contains(one.first) || one.contains(r.Masked().Addr()) {
			return true
		}
	}
	return false
}

// has tells whether there are addresses of a family at all.
func (p Pool) has(f corev1.IPFamily) bool {
	return slices.ContainsFunc(p.ranges, func(r addresses) bool { return controllers.FamilyOf(r.first) == f })
}

// free is the first address of a family that is not taken.
func (p Pool) free(f corev1.IPFamily, taken func(netip.Addr) bool) (netip.Addr, bool) {
	for _, r := range p.ranges {
		if controllers.FamilyOf(r.first) != f {
			continue
		}
		for ip := r.first; r.contains(ip); ip = ip.Next() {
			if !taken(ip) {
				return ip, true
			}
		}
	}
	return netip.Addr{}, false
}
