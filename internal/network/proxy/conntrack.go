package proxy

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// goneBackends lists the backends of had that want has no more.
func goneBackends(had, want Program) map[netip.AddrPort]bool {
	gone := map[netip.AddrPort]bool{}
	for name, c := range had.Chains {
		for _, b := range c.Backends {
			gone[b] = true
		}
		for _, b := range want.Chains[name].Backends {
			delete(gone, b)
		}
	}
	return gone
}

// forgetUDP drops the kernel's memory of UDP exchanges with backends that are
// gone: without connections to end, a client that keeps sending would be led
// to the dead pod for ever. Connections of TCP are left to drain.
func forgetUDP(gone map[netip.AddrPort]bool) error {
	if len(gone) == 0 {
		return nil
	}
	_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, backendFilter(gone))
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
