package simnode

import (
	"net/netip"
	"sync"

	"github.com/setpoint-project/setpoint/loop"
)

// addresses gives nodes and pods their addresses. A pod has one as long as it
// exists; one that its status shows already is taken over.
type addresses struct {
	nodes, pods netip.Prefix // the halves of the range

	mu    sync.Mutex
	taken map[netip.Addr]loop.Key     // guarded by mu, as the rest
	of    map[loop.Key]netip.Addr     // the inverse
	last  map[netip.Prefix]netip.Addr // given out, by range: the search goes on from there
}

func newAddresses(all netip.Prefix) *addresses {
	all = all.Masked()
	half := netip.PrefixFrom(all.Addr(), all.Bits()+1)
	return &addresses{nodes: half, pods: netip.PrefixFrom(after(lastOf(half)), half.Bits()),
		taken: map[netip.Addr]loop.Key{}, of: map[loop.Key]netip.Addr{}, last: map[netip.Prefix]netip.Addr{}}
}

// ofNode is the address of the node with a number: the same at each start.
func (a *addresses) ofNode(i int) string { return offset(a.nodes.Addr(), i+1).String() }

// ofPod gives a pod an address out of its node's range, "" meaning none of its
// own. It returns "" when the range is used up.
func (a *addresses) ofPod(key loop.Key, podCIDR, had string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr, err := netip.ParseAddr(had); err == nil {
		a.takeLocked(key, addr)
		return had
	}
	if addr, ok := a.of[key]; ok {
		return addr.String()
	}
	from, err := netip.ParsePrefix(podCIDR)
	if err != nil {
		from = a.pods
	}
	from = from.Masked()
	first, end := after(from.Addr()), lastOf(from)
	at, ok := a.last[from]
	if !ok {
		at = first // of a podCIDR: the node's own, the gateway
	}
	for start := at; ; {
		if at = after(at); !from.Contains(at) || at == end {
			at = first
		}
		if _, used := a.taken[at]; !used && at != first {
			a.last[from] = at
			a.takeLocked(key, at)
			return at.String()
		}
		if at == start {
			return ""
		}
	}
}

func (a *addresses) takeLocked(key loop.Key, addr netip.Addr) {
	if had, ok := a.of[key]; ok && had != addr {
		delete(a.taken, had)
	}
	a.taken[addr], a.of[key] = key, addr
}

// release frees the address of a pod that is gone.
func (a *addresses) release(key loop.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr, ok := a.of[key]; ok {
		delete(a.of, key)
		if a.taken[addr] == key {
			delete(a.taken, addr)
		}
	}
}

func after(addr netip.Addr) netip.Addr { return addr.Next() }

// lastOf is the last address of a range.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := range b {
		switch free := (i+1)*8 - p.Bits(); {
		case free >= 8:
			b[i] = 0xff
		case free > 0:
			b[i] |= 1<<free - 1
		}
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

func offset(addr netip.Addr, n int) netip.Addr {
	b := addr.AsSlice()
	for i := len(b) - 1; i >= 0 && n > 0; i-- {
		n += int(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	out, _ := netip.AddrFromSlice(b)
	return out
}
