package proxy

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGoneBackends: only what datagrams were led to is to be forgotten.
func TestGoneBackends(t *testing.T) {
	had := program("udp", Chain{Backends: ports("10.42.0.2:53", "10.42.0.3:53")}, front("10.43.0.53", unix.IPPROTO_UDP, 53), front("", unix.IPPROTO_UDP, 30053))
	had.lead("tcp", Chain{Backends: ports("10.42.0.2:53", "10.42.0.3:53", "10.42.0.4:80")}, front("10.43.0.53", unix.IPPROTO_TCP, 53))
	for _, c := range []struct {
		name string
		want Program
		gone []netip.AddrPort
	}{
		{"nothing changed", had, nil},
		{"all", newProgram(), ports("10.42.0.2:53", "10.42.0.3:53")},
		{"one", program("udp", Chain{Backends: ports("10.42.0.3:53", "10.42.0.5:53")}, front("10.43.0.53", unix.IPPROTO_UDP, 53)), ports("10.42.0.2:53")},
		{"served by TCP only now", program("tcp", had.Chains["tcp"], front("10.43.0.53", unix.IPPROTO_TCP, 53)), ports("10.42.0.2:53", "10.42.0.3:53")},
	} {
		got := slices.SortedFunc(maps.Keys(goneBackends(had, c.want)), netip.AddrPort.Compare)
		if !slices.Equal(got, c.gone) {
			t.Errorf("%s: %v, want %v", c.name, got, c.gone)
		}
	}
}
