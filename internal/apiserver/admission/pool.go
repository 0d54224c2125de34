package admission

import (
	"errors"
	"math/rand/v2"
)

var (
	errAllocated = errors.New("provided IP is already allocated")
	errFull      = errors.New("range is full")
)

// pool hands out the numbers 0..size-1, each to one owner. The first static of
// them are left for those who ask for a certain number, as long as there are
// others: https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/
// A pool has no lock of its own.
type pool struct {
	size, static int
	owner        map[int]string
}

func newPool(size, static int) *pool {
	return &pool{size: size, static: static, owner: map[int]string{}}
}

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
	if n, ok := p.find(p.static, p.size, owner); ok {
		return n, nil
	}
	if n, ok := p.find(0, p.static, owner); ok {
		return n, nil
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
