// Package freeport finds ports for programs under test that must be told which
// to listen at.
//
// A port that was had by listening at port 0 and let go again may be another
// test's, or that of somebody's connection, before the program takes it. These
// lie below the range from which the kernel gives ports to those who ask for
// any (net.ipv4.ip_local_port_range): only who asks for this very one gets it.
package freeport

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
)

const first, end = 10000, 32768

// Port is one that is free on loopback, for TCP and UDP.
func Port(t testing.TB) uint16 {
	t.Helper()
	var err error
	for range 100 {
		port := uint16(first + rand.IntN(end-first))
		if err = free(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)); err == nil {
			return port
		}
	}
	t.Fatalf("no port is free: %v", err)
	return 0
}

func free(at netip.AddrPort) error {
	tcp, err := net.Listen("tcp", at.String())
	if err != nil {
		return err
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", at.String())
	if err != nil {
		return err
	}
	return udp.Close()
}
