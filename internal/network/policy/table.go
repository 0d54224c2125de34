package policy

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/network"
)

// portion of elements in one netlink attribute, which holds 64 KiB.
const portion = 400

const (
	reg0 = unix.NFT_REG32_00
	// offset in the headers of TCP, UDP and SCTP
	destinationPort = 2
)

// Table is the nftables table of the policies for one family of addresses. It is
// for one goroutine.
type Table struct {
	family          network.Family
	bridge          string
	dns             []netip.AddrPort // where this node's DNS server is, which every pod may ask
	conn            *nftables.Conn
	table           *nftables.Table
	egress, ingress *nftables.Set // pod -> chain
	inForce         *Program      // nil: not written by us yet, or there is none
	none            bool          // there is no table, by our doing
}

// NewTable prepares the table; Set writes it.
func NewTable(host *network.Host, f network.Family, dns []netip.AddrPort) (*Table, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	t := f.Table(host.PolicyTable())
	set := func(name string) *nftables.Set {
		return &nftables.Set{Table: t, Name: name, IsMap: true, KeyType: f.Key(), DataType: nftables.TypeVerdict}
	}
	return &Table{family: f, bridge: host.Bridge(), dns: dns, conn: conn, table: t, egress: set("egress"), ingress: set("ingress")}, nil
}

// Set puts a program into force in one transaction: no packet meets a moment
// with half of it. What has not changed is not written again. For an empty one
// there is no table, and no packet pays for it.
func (t *Table) Set(p Program) error {
	had := t.inForce
	t.inForce, t.none = nil, false // until it has succeeded
	if len(p.Chains) == 0 {
		t.conn.AddTable(t.table)
		t.conn.DelTable(t.table)
		if err := t.conn.Flush(); err != nil {
			return fmt.Errorf("nftables: %w", err)
		}
		t.none = true
		return nil
	}
	if had == nil {
		had = &Program{}
		t.conn.AddTable(t.table) // or deleting it would fail when it is not there
		t.conn.DelTable(t.table)
		t.conn.AddTable(t.table)
		if err := t.base(); err != nil {
			return err
		}
	}
	for name, c := range p.Chains {
		if _, ok := had.Chains[name]; !ok {
			if err := t.chain(name, c); err != nil {
				return err
			}
		}
	}
	if err := t.lead(t.egress, had.Egress, p.Egress); err != nil {
		return err
	}
	if err := t.lead(t.ingress, had.Ingress, p.Ingress); err != nil {
		return err
	}
	for name := range had.Chains {
		if _, ok := p.Chains[name]; !ok {
			c := &nftables.Chain{Name: name, Table: t.table}
			t.conn.FlushChain(c)
			t.conn.DelChain(c)
		}
	}
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	t.inForce = &p
	return nil
}

// base writes what does not change. What comes from this node itself passes no
// forward hook: kubelet's probes are always let in, as the API wants it.
//
//	forward  from a pod, or to one: is it let out there, is it let in here?
//	input    from a pod to this node
func (t *Table) base() error {
	for _, s := range []*nftables.Set{t.egress, t.ingress} {
		if err := t.conn.AddSet(s, nil); err != nil {
			return fmt.Errorf("nftables: set %s: %w", s.Name, err)
		}
	}
	for name, hook := range map[string]*nftables.ChainHook{"forward": nftables.ChainHookForward, "input": nftables.ChainHookInput} {
		c := t.conn.AddChain(&nftables.Chain{Name: name, Table: t.table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter})
		// Connections that were let pass, and what belongs to them.
		const known = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
		t.rule(c, &expr.Ct{Key: expr.CtKeySTATE, Register: reg0},
			&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(known), Xor: make([]byte, 4)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: make([]byte, 4)}, accept)
		if name == "input" {
			for _, at := range t.dns {
				if t.family.Has(at.Addr()) {
					t.rule(c, t.load(destination), isEqual(at.Addr().AsSlice()), loadPort(), isEqual(binary.BigEndian.AppendUint16(nil, at.Port())), accept)
				}
			}
		}
		if t.family == network.IPv6 {
			t.link(c)
		}
		t.rule(c, t.load(source), t.vmap(t.egress))
		if name == "forward" {
			t.rule(c, t.load(destination), t.vmap(t.ingress))
		}
	}
	return nil
}

// link writes what IPv6 does on one link. Neighbours find each other, and say
// which groups they are in, whatever policies there are: without that nobody
// reaches anybody. Else nothing comes from a pod's link-local address, which no
// policy could mean: a pod has it without anybody giving it, and would walk
// around all policies with it.
func (t *Table) link(c *nftables.Chain) {
	icmp := []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg0}, isEqual([]byte{unix.IPPROTO_ICMPV6}),
		&expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseTransportHeader, Len: 1}}
	for _, types := range [][2]byte{{130, 136}, {143, 143}} { // MLD and ND; MLDv2's reports
		t.rule(c, append(slices.Clip(icmp),
			&expr.Cmp{Op: expr.CmpOpGte, Register: reg0, Data: types[:1]}, &expr.Cmp{Op: expr.CmpOpLte, Register: reg0, Data: types[1:]}, accept)...)
	}
	from := make([]byte, unix.IFNAMSIZ)
	copy(from, t.bridge)
	t.rule(c, &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: unix.NFT_REG_1}, &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: from},
		&expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseNetworkHeader, Offset: t.family.SourceOffset(), Len: 2},
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 2, Mask: []byte{0xff, 0xc0}, Xor: make([]byte, 2)},
		isEqual([]byte{0xfe, 0x80}), &expr.Verdict{Kind: expr.VerdictDrop})
}

var accept = &expr.Verdict{Kind: expr.VerdictAccept}

func isEqual(data []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: data}
}

func (t *Table) rule(c *nftables.Chain, exprs ...expr.Any) {
	t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: c, Exprs: exprs})
}

// end is one of a packet's two addresses.
type end bool

const (
	source      end = false
	destination end = true
)

func (t *Table) load(e end) expr.Any {
	offset := t.family.SourceOffset()
	if e == destination {
		offset = t.family.DestinationOffset()
	}
	return &expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: t.family.Size()}
}

func loadPort() expr.Any {
	return &expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseTransportHeader, Offset: destinationPort, Len: 2}
}

func (t *Table) vmap(s *nftables.Set) expr.Any {
	return &expr.Lookup{SourceRegister: reg0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: s.Name, SetID: s.ID}
}

// chain writes what is let pass: back to where it came from. The rest is not.
func (t *Table) chain(name string, c chain) error {
	nc := t.conn.AddChain(&nftables.Chain{Name: name, Table: t.table})
	for _, r := range c.rules {
		var exprs []expr.Any
		among := func(e end, spans []span) error {
			s := &nftables.Set{Table: t.table, Anonymous: true, Constant: true, Interval: true, KeyType: t.family.Key()}
			first, rest := intervals(spans)
			if err := t.conn.AddSet(s, first); err != nil {
				return fmt.Errorf("nftables: peers of %s: %w", name, err)
			}
			for part := range slices.Chunk(rest, portion) {
				if err := t.conn.SetAddElements(s, part); err != nil {
					return fmt.Errorf("nftables: peers of %s: %w", name, err)
				}
			}
			exprs = append(exprs, t.load(e), &expr.Lookup{SourceRegister: reg0, SetName: s.Name, SetID: s.ID})
			return nil
		}
		if !r.Any {
			if err := among(end(c.egress), r.Peers); err != nil { // the end that is not the pod
				return err
			}
		}
		if r.Only != nil {
			if err := among(destination, r.Only); err != nil {
				return err
			}
		}
		if r.Proto != 0 {
			exprs = append(exprs, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg0}, isEqual([]byte{r.Proto}))
		}
		if r.To != 0 {
			exprs = append(exprs, loadPort(),
				&expr.Cmp{Op: expr.CmpOpGte, Register: reg0, Data: binary.BigEndian.AppendUint16(nil, r.From)},
				&expr.Cmp{Op: expr.CmpOpLte, Register: reg0, Data: binary.BigEndian.AppendUint16(nil, r.To)})
		}
		t.rule(nc, append(exprs, &expr.Verdict{Kind: expr.VerdictReturn})...)
	}
	t.rule(nc, &expr.Verdict{Kind: expr.VerdictDrop})
	return nil
}

// intervals are the elements of an interval set: where each span begins, and
// where it is over. The first of them go with the set itself.
func intervals(spans []span) (first, rest []nftables.SetElement) {
	if from := spans[0].from; !from.IsUnspecified() {
		first = append(first, nftables.SetElement{Key: make([]byte, from.BitLen()/8), IntervalEnd: true})
	}
	for _, s := range spans {
		first = append(first, nftables.SetElement{Key: s.from.AsSlice()})
		if next := s.to.Next(); next.IsValid() {
			first = append(first, nftables.SetElement{Key: next.AsSlice(), IntervalEnd: true})
		}
	}
	if len(first) > portion {
		return first[:portion], first[portion:]
	}
	return first, nil
}

// lead sends pods to their chains.
func (t *Table) lead(s *nftables.Set, had, want map[netip.Addr]string) error {
	var drop, add []nftables.SetElement
	element := func(ip netip.Addr, chain string) nftables.SetElement {
		return nftables.SetElement{Key: ip.AsSlice(), VerdictData: &expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}
	}
	for ip, c := range had {
		if want[ip] != c {
			drop = append(drop, element(ip, c))
		}
	}
	for ip, c := range want {
		if had[ip] != c {
			add = append(add, element(ip, c))
		}
	}
	for part := range slices.Chunk(drop, portion) {
		if err := t.conn.SetDeleteElements(s, part); err != nil {
			return fmt.Errorf("nftables: %s: %w", s.Name, err)
		}
	}
	for part := range slices.Chunk(add, portion) {
		if err := t.conn.SetAddElements(s, part); err != nil {
			return fmt.Errorf("nftables: %s: %w", s.Name, err)
		}
	}
	return nil
}
