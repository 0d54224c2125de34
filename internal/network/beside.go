package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bridgePrefix is what the names of all clusters' bridges begin with.
const bridgePrefix = "sp-"

// neighbour is another cluster of this machine.
type neighbour struct {
	bridge string
	ranges []netip.Prefix
}

// beside tells of the ranges that other clusters of this machine live in, and
// by which bridge. What routes lead to a bridge tells it, and the unreachable
// routes that have those in them; so it holds whether they run or not.
func (c Config) beside() ([]neighbour, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("network: links: %w", err)
	}
	others := map[int]*neighbour{} // by the bridge's index
	for _, l := range links {
		if name := l.Attrs().Name; l.Type() == "bridge" && strings.HasPrefix(name, bridgePrefix) && name != c.Bridge() {
			others[l.Attrs().Index] = &neighbour{bridge: name}
		}
	}
	if len(others) == 0 {
		return nil, nil
	}
	var fences []netip.Prefix
	for _, f := range families {
		routes, err := netlink.RouteList(nil, f.Number())
		if err != nil {
			return nil, fmt.Errorf("network: list routes: %w", err)
		}
		for _, r := range routes {
			if r.Dst == nil {
				continue
			}
			p := prefixOf(r.Dst)
			if r.Type == unix.RTN_UNREACHABLE && r.Priority == metricUnreachable {
				fences = append(fences, p)
			} else if o := others[r.LinkIndex]; o != nil && p.Addr().IsGlobalUnicast() && p.Bits() > 0 {
				o.ranges = append(o.ranges, p)
			}
		}
	}
	var out []neighbour
	for _, o := range others {
		for _, p := range slices.Clone(o.ranges) {
			for _, f := range fences {
				if f.Bits() <= p.Bits() && f.Contains(p.Addr()) && !slices.Contains(o.ranges, f) {
					o.ranges = append(o.ranges, f)
				}
			}
		}
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b neighbour) int { return strings.Compare(a.bridge, b.bridge) })
	return out, nil
}

// Free says which of the cluster's ranges another cluster of this machine lives
// in: two that shared one would take each other's routes.
func (c Config) Free() error {
	others, err := c.beside()
	if err != nil {
		return err
	}
	for _, p := range slices.Concat(c.ClusterCIDRs, c.ServiceCIDRs) {
		for _, o := range others {
			if i := slices.IndexFunc(o.ranges, p.Overlaps); i >= 0 {
				return fmt.Errorf("the range %s is in use: another cluster of this machine has %s (bridge %s)", p, o.ranges[i], o.bridge)
			}
		}
	}
	return nil
}

// Beside are the ranges that other clusters of this machine live in.
func (c Config) Beside() (ranges []netip.Prefix, err error) {
	others, err := c.beside()
	for _, o := range others {
		ranges = append(ranges, o.ranges...)
	}
	return ranges, err
}
