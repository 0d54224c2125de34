package proxy

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/network"
)

// goneBackends lists the backends that datagrams were led to by had, and are
// no more by want.
func goneBackends(had, want Program) map[netip.AddrPort]bool {
	gone := map[netip.AddrPort]bool{}
	had.datagrams(func(b netip.AddrPort) { gone[b] = true })
	want.datagrams(func(b netip.AddrPort) { delete(gone, b) })
	return gone
}

// datagrams tells each backend that UDP is led to.
func (p Program) datagrams(tell func(netip.AddrPort)) {
	for f, name := range p.Frontends {
		if f.Proto == unix.IPPROTO_UDP {
			for _, b := range p.Chains[name].Backends {
				tell(b)
			}
		}
	}
}

// forgetUDP drops the kernel's memory of UDP exchanges with backends that are
// gone: without connections to end, a client that keeps sending would be led
// to the dead pod for ever. Connections of TCP are left to drain. It reads all
// that the kernel remembers, so it is not for changes of TCP.
func forgetUDP(f network.Family, gone map[netip.AddrPort]bool) error {
	if len(gone) == 0 {
		return nil
	}
	_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.InetFamily(f.Number()), backendFilter(gone))
	return err
}

type backendFilter map[netip.AddrPort]bool

// MatchConntrackFlow is netlink's filter: the answers' source is the backend.
func (f backendFilter) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP || flow.Forward.DstIP.Equal(flow.Reverse.SrcIP) {
		return false
	}
	addr, ok := netip.AddrFromSlice(flow.Reverse.SrcIP)
	return ok && f[netip.AddrPortFrom(addr.Unmap(), flow.Reverse.SrcPort)]
}
