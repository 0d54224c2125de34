package proxy

import (
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/network"
)

// reg0 is the first of the kernel's 4-byte registers, which the rules use in a
// row, so that a concatenation can be loaded and looked up. An address fills one
// or, of IPv6, four of them.
const reg0 = unix.NFT_REG32_00

// behind is the register after one address in reg0, or after several.
func (t *Table) behind(addresses uint32) uint32 { return reg0 + addresses*t.family.Size()/4 }

// rule adds a rule made of parts: expressions, or runs of them.
func (t *Table) rule(c *nftables.Chain, parts ...any) {
	var exprs []expr.Any
	for _, p := range parts {
		switch p := p.(type) {
		case []expr.Any:
			exprs = append(exprs, p...)
		case expr.Any:
			exprs = append(exprs, p)
		}
	}
	t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: c, Exprs: exprs})
}

// baseChains writes the part of the table that does not change:
//
//	prerouting, output   -> services: look the destination up, twice
//	postrouting          masquerade what could not find its way back
//	forward, out-filter  refuse what is still for an address of a service range
func (t *Table) baseChains() {
	services := t.conn.AddChain(&nftables.Chain{Name: "services", Table: t.table})
	t.rule(services, t.loadDestination(reg0), loadProtocol(t.behind(1)), loadPort(t.behind(1)+1), vmap(t.frontends))
	t.rule(services,
		&expr.Fib{Register: reg0, ResultADDRTYPE: true, FlagDADDR: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
		t.destinationIn(t.family.Loopback(), expr.CmpOpNeq), loadProtocol(reg0), loadPort(reg0+1), vmap(t.ports))
	for name, hook := range map[string]*nftables.ChainHook{"prerouting": nftables.ChainHookPrerouting, "output": nftables.ChainHookOutput} {
		// A packet that is on its way through the rules when they change goes on
		// in the old ones, but looks into sets as they are now, and the set of
		// an old rule is empty then: the packet finds no backend and would be
		// refused. So whoever was led nowhere is asked again, from the
		// beginning, by a chain of its own: it meets the new rules. Only the
		// first packet of a connection comes here.
		for again, suffix := range []string{"", "-again"} {
			c := t.conn.AddChain(&nftables.Chain{Name: name + suffix, Table: t.table, Type: nftables.ChainTypeNAT, Hooknum: hook,
				Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityNATDest + nftables.ChainPriority(again))})
			t.rule(c, &expr.Verdict{Kind: expr.VerdictJump, Chain: services.Name})
		}
	}

	post := t.conn.AddChain(&nftables.Chain{Name: "postrouting", Table: t.table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	// A pod that reached itself through a service.
	t.rule(post, t.loadSource(reg0), t.loadDestination(t.behind(1)), &expr.Lookup{SourceRegister: reg0, SetName: t.hairpin.Name, SetID: t.hairpin.ID}, &expr.Masq{})
	pods, cluster := t.family.Of(t.host.PodCIDRs), t.family.Of(t.host.ClusterCIDRs)
	// A pod that leaves the cluster.
	if pods.IsValid() {
		t.rule(post, t.sourceIn(pods, expr.CmpOpEq), t.destinationIn(cluster, expr.CmpOpNeq), t.toBridge(expr.CmpOpNeq), &expr.Masq{})
	}
	// A client from outside, led to a pod of another node.
	if cluster.IsValid() {
		t.rule(post, translated(), t.sourceIn(cluster, expr.CmpOpNeq), t.toBridge(expr.CmpOpNeq), &expr.Masq{})
	}
	if pods.IsValid() && !t.host.BridgeFilter {
		t.rule(post, translated(), t.sourceIn(pods, expr.CmpOpEq), t.toBridge(expr.CmpOpEq), &expr.Masq{})
	}

	for name, hook := range map[string]*nftables.ChainHook{"forward": nftables.ChainHookForward, "out-filter": nftables.ChainHookOutput} {
		c := t.conn.AddChain(&nftables.Chain{Name: name, Table: t.table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter})
		if name == "forward" && t.family == network.IPv6 {
			// Pods are no routers: none tells the others where to send to.
			const advertisement = 134
			t.rule(c, t.toBridge(expr.CmpOpEq), loadProtocol(reg0), isByte(unix.IPPROTO_ICMPV6), loadICMPType(reg0), isByte(advertisement), &expr.Verdict{Kind: expr.VerdictDrop})
		}
		unserved := []expr.Any{t.loadDestination(reg0), &expr.Lookup{SourceRegister: reg0, SetName: t.ranges.Name, SetID: t.ranges.ID}}
		// TCP by reset: the kernel limits how many ICMP messages it sends.
		t.rule(c, unserved, loadProtocol(reg0), isByte(unix.IPPROTO_TCP), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})
		t.rule(c, unserved, &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable(t.family)})
	}
}

// portUnreachable is the code of the message of ICMP, or of ICMPv6.
func portUnreachable(f network.Family) uint8 {
	if f == network.IPv4 {
		return 3
	}
	return 4
}

func isByte(b byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{b}}
}

func (t *Table) sourceIn(p netip.Prefix, op expr.CmpOp) []expr.Any {
	return []expr.Any{t.loadSource(reg0), mask(reg0, p), &expr.Cmp{Op: op, Register: reg0, Data: p.Masked().Addr().AsSlice()}}
}

func (t *Table) destinationIn(p netip.Prefix, op expr.CmpOp) []expr.Any {
	return []expr.Any{t.loadDestination(reg0), mask(reg0, p), &expr.Cmp{Op: op, Register: reg0, Data: p.Masked().Addr().AsSlice()}}
}

func (t *Table) toBridge(op expr.CmpOp) []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, t.host.Bridge())
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: unix.NFT_REG_1}, &expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: name}}
}

// translated matches connections whose destination a rule has changed.
func translated() []expr.Any {
	const ipsDstNAT = 1 << 5
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: reg0},
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(ipsDstNAT), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: make([]byte, 4)},
	}
}

func (t *Table) loadSource(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: t.family.SourceOffset(), Len: t.family.Size()}
}

func (t *Table) loadDestination(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: t.family.DestinationOffset(), Len: t.family.Size()}
}

func loadProtocol(reg uint32) expr.Any {
	return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg}
}

// loadPort loads the destination port of TCP, UDP and SCTP alike.
func loadPort(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

func loadICMPType(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Len: 1}
}

// mask keeps the bits of an address that a prefix is made of.
func mask(reg uint32, p netip.Prefix) expr.Any {
	n := p.Addr().BitLen()
	return &expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: uint32(n / 8), Mask: net.CIDRMask(p.Bits(), n), Xor: make([]byte, n/8)}
}

// vmap looks the registers from reg0 on up and goes where the map says.
func vmap(s *nftables.Set) expr.Any {
	return &expr.Lookup{SourceRegister: reg0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: s.Name, SetID: s.ID}
}
