package announce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// tell says on every network that an address is in that it is here now: others
// may remember where it was.
func tell(ip netip.Addr) error {
	links, err := reaching(ip)
	if err != nil {
		return err
	}
	var errs []error
	for i := range links {
		frame := arpAnnouncement(links[i].HardwareAddr, ip)
		if ip.Is6() {
			frame = neighbourAdvertisement(links[i].HardwareAddr, ip)
		}
		if err := send(&links[i], frame); err != nil {
			errs = append(errs, fmt.Errorf("announce %s on %s: %w", ip, links[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

// reaching are the links of the networks that an address is in.
func reaching(ip netip.Addr) (out []net.Interface, err error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	for _, link := range links {
		if link.Flags&net.FlagUp != 0 && link.Flags&net.FlagBroadcast != 0 && len(link.HardwareAddr) == 6 && reaches(&link, ip) {
			out = append(out, link)
		}
	}
	return out, nil
}

// reaches tells whether an address is of a network that a link has one of.
func reaches(link *net.Interface, ip netip.Addr) bool {
	return anyAddr(link, func(n *net.IPNet) bool {
		ones, bits := n.Mask.Size()
		return ones < bits && n.Contains(ip.AsSlice())
	})
}

// has tells whether a link has an address.
func has(link *net.Interface, ip netip.Addr) bool {
	return anyAddr(link, func(n *net.IPNet) bool { return n.IP.Equal(ip.AsSlice()) })
}

func anyAddr(link *net.Interface, is func(*net.IPNet) bool) bool {
	addrs, err := link.Addrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && is(n) {
			return true
		}
	}
	return false
}

// arpAnnouncement is an Ethernet frame with an ARP request of an address for
// itself (RFC 5227).
func arpAnnouncement(from net.HardwareAddr, ip netip.Addr) []byte {
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

// neighbourAdvertisement is an Ethernet frame with an advertisement of an
// address that nobody asked for, to all nodes of the link, which is to override
// what they know (RFC 4861, 7.2.6).
func neighbourAdvertisement(from net.HardwareAddr, ip netip.Addr) []byte {
	all := netip.IPv6LinkLocalAllNodes()
	message := []byte{136, 0, 0, 0, 0xa0 /* router, override */, 0, 0, 0} // checksum to come
	message = append(message, ip.AsSlice()...)
	message = append(message, 2 /* target's link-layer address */, 1)
	message = append(message, from...)
	binary.BigEndian.PutUint16(message[2:], checksum(ip, all, message))

	frame := []byte{0x33, 0x33, 0, 0, 0, 1}
	frame = append(frame, from...)
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IPV6)
	frame = append(frame, 0x60, 0, 0, 0)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(message)))
	frame = append(frame, unix.IPPROTO_ICMPV6, 255)
	frame = append(frame, ip.AsSlice()...)
	frame = append(frame, all.AsSlice()...)
	return append(frame, message...)
}

// checksum is that of a message of ICMPv6, of an even length, with a pseudo
// header before it (RFC 8200, 8.1).
func checksum(from, to netip.Addr, message []byte) uint16 {
	sum := uint32(len(message)) + unix.IPPROTO_ICMPV6
	for _, part := range [][]byte{from.AsSlice(), to.AsSlice(), message} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// send puts a frame on a link.
func send(link *net.Interface, frame []byte) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(frame[12:]), Ifindex: link.Index})
}
