package admission

import (
	"errors"
	"math/rand/v2"
)

var (
	errAllocated = errors.New("provided IP is already allocated")
	errFull      = errors.New("range is full")
)

// pool hands out numbers, each to one owner. It has no lock of its own.
type pool struct {
	spans []span // where next looks, in this order
	owner map[int]string
}

// span are the numbers from first up to, and without, end. The first static of
// them are left for those who ask for a certain number, as long as there are
// others: https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/
type span struct{ first, static, end int }

func newPool(spans ...span) *pool { return &pool{spans: spans, owner: map[int]string{}} }

// take gives n to owner; it may have it already.
func (p *pool) take(n int, owner string) bool {
	if o, ok := p.owner[n]; ok {
		return o == owner
	}
	p.owner[n] = owner
	return true
}

// next gives some free number to owner. Random, so that a number that was
// released is not given away at once, while somebody may still send to it.
func (p *pool) next(owner string) (int, error) {
	for _, s := range p.spans {
		if n, ok := p.find(s.first+s.static, s.end, owner); ok {
			return n, nil
		}
	}
	for _, s := range p.spans {
		if n, ok := p.find(s.first, s.first+s.static, owner); ok {
			return n, nil
		}
	}
	return 0, errFull
}

func (p *pool) find(from, to int, owner string) (int, bool) {
	if to <= from {
		return 0, false
	}
	start := rand.IntN(to - from)
	for i := range to - from {
		n := from + (start+i)%(to-from)
		if _, taken := p.owner[n]; !taken {
			p.owner[n] = owner
			return n, true
		}
	}
	return 0, false
}

// release takes n away from owner, if it is the owner.
func (p *pool) release(n int, owner string) {
	if p.owner[n] == owner {
		delete(p.owner, n)
	}
}
