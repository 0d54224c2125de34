package announce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// tell broadcasts on every network that an address is in that it is here now
// (RFC 5227, an ARP announcement): others may remember where it was.
func tell(ip netip.Addr) error {
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	var errs []error
	for _, link := range links {
		if link.Flags&net.FlagUp == 0 || link.Flags&net.FlagBroadcast == 0 || len(link.HardwareAddr) != 6 || !reaches(&link, ip) {
			continue
		}
		if err := broadcast(&link, announcement(link.HardwareAddr, ip)); err != nil {
			errs = append(errs, fmt.Errorf("announce %s on %s: %w", ip, link.Name, err))
		}
	}
	return errors.Join(errs...)
}

// reaches tells whether an address is of a network that a link has one of.
func reaches(link *net.Interface, ip netip.Addr) bool {
	addrs, err := link.Addrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ones, _ := n.Mask.Size(); ones < 32 && n.Contains(ip.AsSlice()) {
				return true
			}
		}
	}
	return false
}

// announcement is an Ethernet frame with an ARP request of an address for
// itself.
func announcement(from net.HardwareAddr, ip netip.Addr) []byte {
	frame := make([]byte, 0, 42)
	frame = append(frame, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	frame = append(frame, from...)
	for _, v := range []uint16{unix.ETH_P_ARP, 1 /* Ethernet */, unix.ETH_P_IP, 6<<8 | 4 /* sizes */, 1 /* request */} {
		frame = binary.BigEndian.AppendUint16(frame, v)
	}
	frame = append(frame, from...)
	frame = append(frame, ip.AsSlice()...)
	frame = append(frame, 0, 0, 0, 0, 0, 0)
	return append(frame, ip.AsSlice()...)
}

func broadcast(link *net.Interface, frame []byte) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ARP<<8&0xff00 | unix.ETH_P_ARP>>8, Ifindex: link.Index})
}
