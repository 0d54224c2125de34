package nodeipam

import (
	"fmt"
	"math/big"
	"net/netip"
)

// Sizes of the range of one node.
const (
	nodeBitsIPv4 = 24
	nodeBitsIPv6 = 64
)

// keptBack is which part of the ranges simulated nodes are not given: an
// eighth.
const keptBack = 8

// ranges cuts one cluster range into equal ranges for nodes, and knows which
// are taken.
type ranges struct {
	cluster netip.Prefix
	bits    int    // of a node's range
	count   int    // of ranges
	used    int    // how many are taken
	next    int    // below it all are taken
	taken   []bool // as far as there are any
}

func newRanges(cluster netip.Prefix) (*ranges, error) {
	if cluster != cluster.Masked() {
		return nil, fmt.Errorf("nodeipam: %s has bits set beyond its length; %s is meant, perhaps", cluster, cluster.Masked())
	}
	r := &ranges{cluster: cluster, bits: nodeBitsIPv4}
	if cluster.Addr().Is6() {
		r.bits = nodeBitsIPv6
	}
	if cluster.Bits() > r.bits {
		return nil, fmt.Errorf("nodeipam: %s is too small: each node gets a /%d of it", cluster, r.bits)
	}
	r.count = 1 << min(r.bits-cluster.Bits(), 24)
	return r, nil
}

// take marks a range as taken. One of elsewhere is none of ours.
func (r *ranges) take(p netip.Prefix) {
	if p.Addr().Is4() != r.cluster.Addr().Is4() || !r.cluster.Overlaps(p) {
		return
	}
	// One that somebody made larger covers several of ours.
	first, last := 0, r.count-1
	if p.Bits() > r.cluster.Bits() {
		first = r.index(p.Masked().Addr())
		last = first
		if p.Bits() < r.bits {
			last = first + 1<<(r.bits-p.Bits()) - 1
		}
	}
	for i := first; i <= last && i < r.count; i++ {
		for i >= len(r.taken) {
			r.taken = append(r.taken, false)
		}
		if !r.taken[i] {
			r.taken[i] = true
			r.used++
		}
	}
}

// free returns the lowest free range; false when there is none. It does not
// take it.
func (r *ranges) free() (netip.Prefix, bool) {
	for ; r.next < r.count; r.next++ {
		if r.next >= len(r.taken) || !r.taken[r.next] {
			return netip.PrefixFrom(r.address(r.next), r.bits), true
		}
	}
	return netip.Prefix{}, false
}

// offers tells whether a range is one of those for nodes, and free.
func (r *ranges) offers(p netip.Prefix) bool {
	if p != p.Masked() || p.Bits() != r.bits || p.Addr().Is4() != r.cluster.Addr().Is4() || !r.cluster.Contains(p.Addr()) {
		return false
	}
	i := r.index(p.Addr())
	return i < r.count && (i >= len(r.taken) || !r.taken[i])
}

// spare tells whether there are free ranges beyond those that are kept back for
// nodes that cannot do without.
func (r *ranges) spare() bool { return r.count-r.used > r.count/keptBack }

// index is the number of the range that an address is in.
func (r *ranges) index(addr netip.Addr) int {
	n := new(big.Int).SetBytes(addr.AsSlice())
	n.Sub(n, new(big.Int).SetBytes(r.cluster.Addr().AsSlice()))
	return int(n.Rsh(n, uint(addr.BitLen()-r.bits)).Int64())
}

func (r *ranges) address(i int) netip.Addr {
	addr := r.cluster.Addr()
	n := new(big.Int).Lsh(big.NewInt(int64(i)), uint(addr.BitLen()-r.bits))
	n.Add(n, new(big.Int).SetBytes(addr.AsSlice()))
	out, _ := netip.AddrFromSlice(n.FillBytes(make([]byte, addr.BitLen()/8)))
	return out
}
