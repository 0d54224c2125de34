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
)

// portion of elements in one netlink attribute, which holds 64 KiB.
const portion = 400

const (
	reg0 = unix.NFT_REG32_00
	// offsets in the headers
	source, destination, destinationPort = 12, 16, 2
)

// Table is the nftables table of the policies. It is for one goroutine.
type Table struct {
	dns             netip.AddrPort // this node's DNS server, which every pod may ask
	conn            *nftables.Conn
	table           *nftables.Table
	egress, ingress *nftables.Set // pod -> chain
	inForce         *Program      // nil: not written by us yet, or there is none
	none            bool          // there is no table, by our doing
}

// NewTable prepares the table; Set writes it.
func NewTable(name string, dns netip.AddrPort) (*Table, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	t := &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4}
	set := func(name string) *nftables.Set {
		return &nftables.Set{Table: t, Name: name, IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict}
	}
	return &Table{dns: dns, conn: conn, table: t, egress: set("egress"), ingress: set("ingress")}, nil
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
			&expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: make([]byte, 4)}, &expr.Verdict{Kind: expr.VerdictAccept})
		if name == "input" && t.dns.IsValid() {
			t.rule(c, load(destination), &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: t.dns.Addr().AsSlice()},
				loadPort(), &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: binary.BigEndian.AppendUint16(nil, t.dns.Port())}, &expr.Verdict{Kind: expr.VerdictAccept})
		}
		t.rule(c, load(source), t.vmap(t.egress))
		if name == "forward" {
			t.rule(c, load(destination), t.vmap(t.ingress))
		}
	}
	return nil
}

func (t *Table) rule(c *nftables.Chain, exprs ...expr.Any) {
	t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: c, Exprs: exprs})
}

func load(offset uint32) expr.Any {
	return &expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
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
		among := func(offset uint32, spans []span) error {
			s := &nftables.Set{Table: t.table, Anonymous: true, Constant: true, Interval: true, KeyType: nftables.TypeIPAddr}
			first, rest := intervals(spans)
			if err := t.conn.AddSet(s, first); err != nil {
				return fmt.Errorf("nftables: peers of %s: %w", name, err)
			}
			for part := range slices.Chunk(rest, portion) {
				if err := t.conn.SetAddElements(s, part); err != nil {
					return fmt.Errorf("nftables: peers of %s: %w", name, err)
				}
			}
			exprs = append(exprs, load(offset), &expr.Lookup{SourceRegister: reg0, SetName: s.Name, SetID: s.ID})
			return nil
		}
		if !r.Any {
			offset := uint32(source)
			if c.egress {
				offset = destination
			}
			if err := among(offset, r.Peers); err != nil {
				return err
			}
		}
		if r.To4 != nil {
			if err := among(destination, r.To4); err != nil {
				return err
			}
		}
		if r.Proto != 0 {
			exprs = append(exprs, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg0}, &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{r.Proto}})
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
	if spans[0].from != netip.IPv4Unspecified() {
		first = append(first, nftables.SetElement{Key: make([]byte, 4), IntervalEnd: true})
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
