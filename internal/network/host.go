package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"

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
	for _, p := range []netip.Prefix{h.ClusterCIDR, h.ServiceCIDR} {
		if err := netlink.RouteReplace(unreachable(p)); err != nil {
			return fmt.Errorf("network: give %s an unreachable route: %w", p, err)
		}
	}
	return nil
}

func unreachable(p netip.Prefix) *netlink.Route {
	return &netlink.Route{Dst: ipNet(p), Type: unix.RTN_UNREACHABLE, Priority: metricUnreachable}
}

// Up raises the fence, then the bridge. The service range is routed to the
// bridge by RouteServices, once the rules that refuse unserved addresses are
// in force.
func (h *Host) Up() error {
	if err := h.Validate(); err != nil {
		return err
	}
	if err := h.Fence(); err != nil {
		return err
	}
	if err := setSysctl("net/ipv4/ip_forward", "1"); err != nil {
		return err
	}
	if _, err := h.bridge(); err != nil {
		return err
	}
	h.BridgeFilter = bridgeFilter()
	return nil
}

func (h *Host) bridge() (netlink.Link, error) {
	link, err := netlink.LinkByName(h.Bridge())
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = h.Bridge()
		// An address of its own keeps the bridge from taking that of
		// whichever port has the lowest, which would change under way.
		gw := h.Gateway().As4()
		attrs.HardwareAddr = net.HardwareAddr{0x02, 0x53, gw[0], gw[1], gw[2], gw[3]}
		if err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("network: add bridge %s: %w", h.Bridge(), err)
		}
		link, err = netlink.LinkByName(h.Bridge())
	}
	if err != nil {
		return nil, fmt.Errorf("network: bridge %s: %w", h.Bridge(), err)
	}
	addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(h.Gateway(), h.PodCIDR.Bits()))}
	if err := netlink.AddrReplace(link, addr); err != nil {
		return nil, fmt.Errorf("network: give bridge %s the address %s: %w", h.Bridge(), addr.IPNet, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("network: set bridge %s up: %w", h.Bridge(), err)
	}
	// Service addresses are reached by way of the bridge's own address; a
	// pod must not be told to look for them on the bridge itself.
	if err := setSysctl("net/ipv4/conf/"+h.Bridge()+"/send_redirects", "0"); err != nil {
		return nil, err
	}
	return link, nil
}

// RouteServices leads the service range to the bridge, so that the host itself
// reaches service addresses: the rules translate them before a packet goes
// out, and refuse those that nothing serves.
func (h *Host) RouteServices() error {
	link, err := netlink.LinkByName(h.Bridge())
	if err != nil {
		return fmt.Errorf("network: bridge %s: %w", h.Bridge(), err)
	}
	route := &netlink.Route{Dst: ipNet(h.ServiceCIDR), LinkIndex: link.Attrs().Index,
		Priority: metricBridge, Src: net.IP(h.Gateway().AsSlice()), Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("network: route %s to bridge %s: %w", h.ServiceCIDR, h.Bridge(), err)
	}
	return nil
}

// Down takes bridge, routes and rules away. What is not there is no error.
func (h *Host) Down() error {
	var errs []error
	errs = append(errs, deleteTable(h.Table()), deleteTable(h.PolicyTable()))
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		errs = append(errs, err)
	}
	for _, r := range routes {
		if r.Dst != nil && h.ClusterCIDR.Contains(addrOf(r.Dst.IP)) {
			errs = append(errs, gone(netlink.RouteDel(&r)))
		}
	}
	if link, err := netlink.LinkByName(h.Bridge()); err == nil {
		errs = append(errs, gone(netlink.LinkDel(link)))
	}
	for _, p := range []netip.Prefix{h.ClusterCIDR, h.ServiceCIDR} {
		errs = append(errs, gone(netlink.RouteDel(unreachable(p))))
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

// bridgeFilter turns netfilter on for bridged packets and tells whether it is.
func bridgeFilter() bool {
	const name = "net/bridge/bridge-nf-call-iptables"
	if setSysctl(name, "1") == nil {
		return true
	}
	// The module may only have to be loaded; kernels without modules fail here.
	if exec.Command("modprobe", "br_netfilter").Run() != nil {
		return false
	}
	return setSysctl(name, "1") == nil
}

func setSysctl(name, value string) error {
	path := "/proc/sys/" + name
	had, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if strings.TrimSpace(string(had)) == value {
		return nil
	}
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("network: set %s: %w", strings.ReplaceAll(name, "/", "."), err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: net.IP(p.Addr().AsSlice()), Mask: net.CIDRMask(p.Bits(), 32)}
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
