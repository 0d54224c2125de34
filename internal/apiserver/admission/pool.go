package admission

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
)

var (
	errAllocated = errors.New("provided IP is already allocated")
	errFull      = errors.New("range is full")
)

// num is a number that a pool hands out: wide enough for an address of IPv6.
type num struct{ hi, lo uint64 }

func (n num) plus(i int) num { return num{n.hi, n.lo + uint64(i)} }

func numOf(ip netip.Addr) num {
	if ip.Is4() {
		b := ip.As4()
		return num{lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := ip.As16()
	return num{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// pool hands out numbers, each to one owner. It has no lock of its own.
type pool struct {
	spans []span // where next looks, in this order
	owner map[num]string
}

// span are the numbers from first on, size of them; they agree in their upper
// half. The first static of them are left for those who ask for a certain
// number, as long as there are others:
// https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/
type span struct {
	first        num
	static, size int
}

func newPool(spans ...span) *pool { return &pool{spans: spans, owner: map[num]string{}} }

// take gives n to owner; it may have it already.
func (p *pool) take(n num, owner string) bool {
	if o, ok := p.owner[n]; ok {
		return o == owner
	}
	p.owner[n] = owner
	return true
}

// next gives some free number to owner. Random, so that a number that was
// released is not given away at once, while somebody may still send to it.
func (p *pool) next(owner string) (num, error) {
	for _, s := range p.spans {
		if n, ok := p.find(s.first.plus(s.static), s.size-s.static, owner); ok {
			return n, nil
		}
	}
	for _, s := range p.spans {
		if n, ok := p.find(s.first, s.static, owner); ok {
			return n, nil
		}
	}
	return num{}, errFull
}

func (p *pool) find(from num, size int, owner string) (num, bool) {
	if size <= 0 {
		return num{}, false
	}
	start := rand.IntN(size)
	for i := range size {
		n := from.plus((start + i) % size)
		if _, taken := p.owner[n]; !taken {
			p.owner[n] = owner
			return n, true
		}
	}
	return num{}, false
}

// release takes n away from owner, if it is the owner.
func (p *pool) release(n num, owner string) {
	if p.owner[n] == owner {
		delete(p.owner, n)
	}
}
