package network

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// The unreachable routes lose against every other route to the same range.
	metricUnreachable = 4096
	metricBridge      = 64
)

// Host is the node's side of the network.
type Host struct {
	Config
	// BridgeFilter tells whether packets between pods on the bridge pass
	// netfilter. Without it (the kernel lacks br_netfilter) answers of a
	// service's pod on the same bridge would not be translated back, so such
	// connections are masqueraded instead. Set by Up.
	BridgeFilter bool
}

// Fence gives the service and pod ranges their unreachable routes. It comes
// before anything else.
func (h *Host) Fence() error {
	return h.FenceRanges(slices.Concat(h.ClusterCIDRs, h.ServiceCIDRs))
}

// FenceRanges gives ranges their unreachable routes.
func (h *Host) FenceRanges(ranges []netip.Prefix) error {
	for _, p := range ranges {
		if err := netlink.RouteReplace(unreachable(p)); err != nil {
			return fmt.Errorf("network: give %s an unreachable route: %w", p, err)
		}
	}
	return nil
}

func unreachable(p netip.Prefix) *netlink.Route {
	return &netlink.Route{Dst: ipNet(p), Type: unix.RTN_UNREACHABLE, Priority: metricUnreachable}
}

// Up raises the fence, then the bridge. Service ranges are routed to the
// bridge by RouteServices, once the rules that refuse unserved addresses are
// in force.
func (h *Host) Up() error {
	if err := h.Validate(); err != nil {
		return err
	}
	if err := h.Fence(); err != nil {
		return err
	}
	for _, f := range families {
		if !f.Of(h.PodCIDRs).IsValid() {
			continue
		}
		if err := forward(f); err != nil {
			return err
		}
	}
	if err := h.bridge(); err != nil {
		return err
	}
	h.BridgeFilter = bridgeFilter(IPv4)
	if IPv6.Of(h.PodCIDRs).IsValid() {
		h.BridgeFilter = bridgeFilter(IPv6) && h.BridgeFilter
	}
	return nil
}

func (h *Host) bridge() error {
	link, err := netlink.LinkByName(h.Bridge())
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = h.Bridge()
		// An address of its own keeps the bridge from taking that of
		// whichever port has the lowest, which would change under way.
		attrs.HardwareAddr = hardwareAddr(h.Gateway())
		if err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("network: add bridge %s: %w", h.Bridge(), err)
		}
		link, err = netlink.LinkByName(h.Bridge())
	}
	if err != nil {
		return fmt.Errorf("network: bridge %s: %w", h.Bridge(), err)
	}
	settings := []sysctl{
		// Service addresses are reached by way of the bridge's own address; a
		// pod must not be told to look for them on the bridge itself.
		{"net/ipv4/conf/" + h.Bridge() + "/send_redirects", "0"}}
	if IPv6.Of(h.PodCIDRs).IsValid() {
		conf := "net/ipv6/conf/" + h.Bridge()
		settings = append(settings,
			sysctl{conf + "/disable_ipv6", "0"}, // which new links may have from the machine's settings
			// Nobody else has its addresses, so they are good at once, also the
			// link's own, which asks for the pods' hardware addresses.
			sysctl{conf + "/accept_dad", "0"},
			sysctl{conf + "/accept_ra", "0"}) // pods are no routers
	}
	for _, s := range settings {
		if err := s.set(); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("network: set bridge %s up: %w", h.Bridge(), err)
	}
	for i, gw := range h.Gateways() {
		addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(gw, h.PodCIDRs[i].Bits()))}
		if IPv6.Has(gw) {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrReplace(link, addr); err != nil {
			return fmt.Errorf("network: give bridge %s the address %s: %w", h.Bridge(), addr.IPNet, err)
		}
	}
	for _, gw := range h.Gateways() {
		if err := settled(gw); err != nil {
			return fmt.Errorf("network: address %s of bridge %s: %w", gw, h.Bridge(), err)
		}
	}
	return nil
}

// settled waits until the kernel leads what is for one of its addresses to
// itself. An address of IPv6 is there before its route is, and who connects in
// between waits seconds for a neighbour that does not exist.
func settled(ip netip.Addr) error {
	const patience, pause = 10 * time.Second, time.Millisecond
	for began := time.Now(); ; time.Sleep(pause) {
		routes, err := netlink.RouteGet(ip.AsSlice())
		switch {
		case err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL:
			return nil
		case time.Since(began) < patience:
		case err != nil:
			return err
		default:
			return fmt.Errorf("the kernel does not lead to it after %v, but by %v", patience, routes)
		}
	}
}

// hardwareAddr is one that follows from an address.
func hardwareAddr(ip netip.Addr) net.HardwareAddr {
	if IPv4.Has(ip) {
		return append(net.HardwareAddr{0x02, 0x53}, ip.AsSlice()...)
	}
	sum := fnv.New32a()
	sum.Write(ip.AsSlice())
	return sum.Sum([]byte{0x02, 0x53})
}

// RouteServices leads service ranges to the bridge, so that the host itself
// reaches service addresses: the rules translate them before a packet goes
// out, and refuse those that nothing serves. A range of a family in which the
// bridge has no address keeps its unreachable route.
func (h *Host) RouteServices(ranges []netip.Prefix) error {
	link, err := netlink.LinkByName(h.Bridge())
	if err != nil {
		return fmt.Errorf("network: bridge %s: %w", h.Bridge(), err)
	}
	for _, p := range ranges {
		pods := familyOf(p).Of(h.PodCIDRs)
		if !pods.IsValid() {
			continue
		}
		route := &netlink.Route{Dst: ipNet(p), LinkIndex: link.Attrs().Index,
			Priority: metricBridge, Src: net.IP(pods.Masked().Addr().Next().AsSlice())}
		if IPv4.Has(p.Addr()) {
			route.Scope = netlink.SCOPE_LINK
		}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("network: route %s to bridge %s: %w", p, h.Bridge(), err)
		}
	}
	return nil
}

// RoutedServices are the ranges that RouteServices leads to the bridge, now or
// in an earlier life.
func (h *Host) RoutedServices() ([]netip.Prefix, error) {
	routes, err := h.serviceRoutes()
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for i := range routes {
		out = append(out, prefixOf(routes[i].Dst))
	}
	return out, nil
}

func (h *Host) serviceRoutes() (out []netlink.Route, err error) {
	link, err := netlink.LinkByName(h.Bridge())
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("network: bridge %s: %w", h.Bridge(), err)
	}
	for _, f := range families {
		routes, err := netlink.RouteListFiltered(f.Number(), &netlink.Route{LinkIndex: link.Attrs().Index}, netlink.RT_FILTER_OIF)
		if err != nil {
			return nil, fmt.Errorf("network: routes of bridge %s: %w", h.Bridge(), err)
		}
		for _, r := range routes {
			if r.Priority == metricBridge && r.Gw == nil && r.Dst != nil {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// ForgetServices takes away the routes of a range that is none of services any
// more. That to the bridge is the last: it tells a later life what is left.
func (h *Host) ForgetServices(p netip.Prefix) error {
	others, err := h.Beside()
	if err != nil {
		return err
	}
	if !slices.Contains(others, p) {
		if err := gone(netlink.RouteDel(unreachable(p))); err != nil {
			return fmt.Errorf("network: take the unreachable route of %s: %w", p, err)
		}
	}
	routes, err := h.serviceRoutes()
	if err != nil {
		return err
	}
	for _, r := range routes {
		if prefixOf(r.Dst) == p {
			if err := gone(netlink.RouteDel(&r)); err != nil {
				return fmt.Errorf("network: take the route of %s: %w", p, err)
			}
		}
	}
	return nil
}

// Down takes bridge, routes and rules away, but nothing of another cluster of
// this machine. What is not there is no error.
func (h *Host) Down() error {
	var errs []error
	ranges, err := h.RoutedServices()
	errs = append(errs, err)
	// Who was refused for the ranges of another cluster has raised nothing, and
	// takes nothing of that one away.
	others, err := h.Beside()
	errs = append(errs, err)
	for _, f := range families {
		errs = append(errs, deleteTable(f, h.Table()), deleteTable(f, h.PolicyTable()))
		routes, err := h.nodeRoutes(f)
		errs = append(errs, err)
		for _, r := range routes {
			to := prefixOf(r.Dst)
			if !slices.ContainsFunc(others, to.Overlaps) {
				errs = append(errs, gone(netlink.RouteDel(&r)))
			}
		}
	}
	if link, err := netlink.LinkByName(h.Bridge()); err == nil {
		errs = append(errs, gone(netlink.LinkDel(link)))
	}
	for _, p := range slices.Concat(h.ClusterCIDRs, h.ServiceCIDRs, ranges) {
		if !slices.Contains(others, p) {
			errs = append(errs, gone(netlink.RouteDel(unreachable(p))))
		}
	}
	return errors.Join(errs...)
}

// gone makes nothing of the errors that say that a thing is not there.
func gone(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// forward lets the machine forward packets of a family.
func forward(f Family) error {
	if f == IPv4 {
		return sysctl{"net/ipv4/ip_forward", "1"}.set()
	}
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		return fmt.Errorf("network: the kernel has no IPv6, which the cluster's ranges need: %w", err)
	}
	if err := keepAdvertised(); err != nil {
		return err
	}
	return sysctl{"net/ipv6/conf/all/forwarding", "1"}.set()
}

// keepAdvertised lets links that take routers' advertisements go on doing so: who
// begins to forward does not, unless he is told to, and would lose his way out
// when the time of the last one is over. A link that forwards already is left
// alone: it takes none, or was told to.
func keepAdvertised() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("network: links: %w", err)
	}
	for _, link := range links {
		conf := "net/ipv6/conf/" + link.Attrs().Name
		accept, forwarding := sysctl{conf + "/accept_ra", "1"}, sysctl{conf + "/forwarding", "0"}
		if !accept.is() || !forwarding.is() {
			continue
		}
		accept.value = "2"
		if err := accept.set(); err != nil {
			return err
		}
	}
	return nil
}

// bridgeFilter turns netfilter on for bridged packets and tells whether it is.
func bridgeFilter(f Family) bool {
	s := sysctl{"net/bridge/bridge-nf-call-iptables", "1"}
	if f == IPv6 {
		s.name = "net/bridge/bridge-nf-call-ip6tables"
	}
	if s.set() == nil {
		return true
	}
	// The module may only have to be loaded; kernels without modules fail here.
	if exec.Command("modprobe", "br_netfilter").Run() != nil {
		return false
	}
	return s.set() == nil
}

// sysctl is a setting of the kernel's.
type sysctl struct{ name, value string }

func (s sysctl) get() (string, error) {
	had, err := os.ReadFile("/proc/sys/" + s.name)
	if err != nil {
		return "", fmt.Errorf("network: %w", err)
	}
	return strings.TrimSpace(string(had)), nil
}

// is tells whether the setting is there, and set so.
func (s sysctl) is() bool {
	had, err := s.get()
	return err == nil && had == s.value
}

func (s sysctl) set() error {
	had, err := s.get()
	if err != nil || had == s.value {
		return err
	}
	if err := os.WriteFile("/proc/sys/"+s.name, []byte(s.value), 0o644); err != nil {
		return fmt.Errorf("network: set %s: %w", strings.ReplaceAll(s.name, "/", "."), err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: net.IP(p.Addr().AsSlice()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func prefixOf(n *net.IPNet) netip.Prefix {
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addrOf(n.IP), bits)
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
