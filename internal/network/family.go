package network

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Family is what tells IPv4 from IPv6 where rules and routes are written. What
// is done for both is written once and takes the family as a parameter.
type Family uint8

const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// families are all there are.
var families = [...]Family{IPv4, IPv6}

func (f Family) String() string { return string(f.AddressType()) }

// Has tells whether an address is of the family. One of IPv4 in the form of
// IPv6 is of neither.
func (f Family) Has(a netip.Addr) bool {
	if f == IPv4 {
		return a.Is4()
	}
	return a.Is6() && !a.Is4In6()
}

// Of is the first prefix of the family; not valid when there is none.
func (f Family) Of(list []netip.Prefix) netip.Prefix {
	for _, p := range list {
		if f.Has(p.Addr()) {
			return p
		}
	}
	return netip.Prefix{}
}

// AddressType is the family's name in the API.
func (f Family) AddressType() discoveryv1.AddressType {
	if f == IPv4 {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

// Size is how many bytes an address has.
func (f Family) Size() uint32 {
	if f == IPv4 {
		return 4
	}
	return 16
}

// SourceOffset is where a packet's source address begins in its header.
func (f Family) SourceOffset() uint32 {
	if f == IPv4 {
		return 12
	}
	return 8
}

// DestinationOffset is where its destination begins: right after.
func (f Family) DestinationOffset() uint32 { return f.SourceOffset() + f.Size() }

// Loopback is the range of addresses that no packet leaves the machine with.
func (f Family) Loopback() netip.Prefix {
	if f == IPv4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)
	}
	return netip.PrefixFrom(netip.IPv6Loopback(), 128)
}

// Number is the kernel's for the family: AF_INET and NFPROTO_IPV4 are the same,
// and so are those of IPv6.
func (f Family) Number() int {
	if f == IPv4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// Table is an nftables table of the family.
func (f Family) Table(name string) *nftables.Table {
	return &nftables.Table{Name: name, Family: nftables.TableFamily(f.Number())}
}

// Key is the type of an address in nftables.
func (f Family) Key() nftables.SetDatatype {
	if f == IPv4 {
		return nftables.TypeIPAddr
	}
	return nftables.TypeIP6Addr
}

// Last is the last address of a prefix.
func Last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Families are those in which the cluster has ranges.
func (c Config) Families() (out []Family) {
	for _, f := range families {
		if f.Of(slices.Concat(c.ClusterCIDRs, c.ServiceCIDRs)).IsValid() {
			out = append(out, f)
		}
	}
	return out
}
