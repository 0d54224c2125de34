package policy

import (
	"net/netip"
	"slices"

	"github.com/setpoint-project/setpoint/internal/network"
)

// span is a range of addresses, both ends included.
type span struct{ from, to netip.Addr }

func one(ip netip.Addr) span { return span{ip, ip} }

func spanOf(p netip.Prefix) span { return span{p.Masked().Addr(), network.Last(p)} }

// merge sorts spans and joins those that touch.
func merge(list []span) (out []span) {
	slices.SortFunc(list, func(a, b span) int { return a.from.Compare(b.from) })
	for _, s := range list {
		if n := len(out); n > 0 && (!out[n-1].to.Less(s.from) || out[n-1].to.Next() == s.from) {
			if out[n-1].to.Less(s.to) {
				out[n-1].to = s.to
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// without cuts a hole out of a span.
func (s span) without(holes []span) []span {
	left := []span{s}
	for _, h := range holes {
		var next []span
		for _, s := range left {
			if h.to.Less(s.from) || s.to.Less(h.from) {
				next = append(next, s)
				continue
			}
			if s.from.Less(h.from) {
				next = append(next, span{s.from, h.from.Prev()})
			}
			if h.to.Less(s.to) {
				next = append(next, span{h.to.Next(), s.to})
			}
		}
		left = next
	}
	return left
}
