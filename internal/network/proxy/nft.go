package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/network"
)

// Elements are sent in portions, since one netlink attribute holds 64 KiB.
const portion = 400

var portType = nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)

// Table is the cluster's nftables table of one family: each has its own, of the
// same name, so that a cluster of one family has no rules of the other. It is
// not for concurrent use.
type Table struct {
	host   *network.Host
	family network.Family
	conn   *nftables.Conn
	table  *nftables.Table

	frontends *nftables.Set // address . protocol . port -> chain
	ports     *nftables.Set // protocol . port, of any local address -> chain
	hairpin   *nftables.Set // pairs of equal pod addresses
	ranges    *nftables.Set // what is refused where nothing serves it

	addrPort nftables.SetDatatype // of backends

	inForce Program            // changed in place by settle
	refused []netip.Prefix     // what ranges holds
	pods    map[netip.Addr]int // by how many chains each backend's address is used
}

// NewTable prepares the table; Replace puts it into force. Close it.
func NewTable(host *network.Host, f network.Family) (*Table, error) {
	// One socket for all changes: closing one waits until the kernel has
	// cleared away what the last change put out of force, which takes
	// milliseconds, and on a busy machine half a second.
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(largeMessages))
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	table, addr := f.Table(host.Table()), f.Key()
	return &Table{
		host: host, family: f, conn: conn, table: table, inForce: newProgram(),
		frontends: &nftables.Set{Table: table, Name: "frontends", IsMap: true, Concatenation: true,
			KeyType: nftables.MustConcatSetType(addr, nftables.TypeInetProto, nftables.TypeInetService), DataType: nftables.TypeVerdict},
		ports:    &nftables.Set{Table: table, Name: "ports", IsMap: true, Concatenation: true, KeyType: portType, DataType: nftables.TypeVerdict},
		hairpin:  &nftables.Set{Table: table, Name: "hairpin", Concatenation: true, KeyType: nftables.MustConcatSetType(addr, addr)},
		ranges:   &nftables.Set{Table: table, Name: "ranges", Interval: true, KeyType: addr},
		addrPort: nftables.MustConcatSetType(addr, nftables.TypeInetService),
	}, nil
}

// Close lets go of the kernel. The rules stay.
func (t *Table) Close() error { return t.conn.CloseLasting() }

// largeMessages lets a whole transaction through: it is sent in one message,
// which must fit the socket's buffer, as must the answers, one for each change.
func largeMessages(c *netlink.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var opt error
	err = raw.Control(func(fd uintptr) {
		opt = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	})
	return errors.Join(err, opt)
}

// Replace puts the program into force in place of whatever the table held,
// in one transaction: no packet meets a moment without rules. What is for an
// address of the ranges, and served by nothing, is refused.
func (t *Table) Replace(p Program, ranges []netip.Prefix) error {
	t.conn.AddTable(t.table) // or deleting it would fail when it is not there
	t.conn.DelTable(t.table)
	t.conn.AddTable(t.table)
	for _, s := range []*nftables.Set{t.frontends, t.ports, t.hairpin, t.ranges} {
		if err := t.conn.AddSet(s, nil); err != nil {
			return fmt.Errorf("nftables: set %s: %w", s.Name, err)
		}
	}
	t.refused = t.refusable(ranges)
	if err := t.conn.SetAddElements(t.ranges, intervals(t.refused)); err != nil {
		return fmt.Errorf("nftables: ranges: %w", err)
	}
	t.baseChains()
	t.inForce, t.pods = newProgram(), map[netip.Addr]int{}
	return t.Change(newProgram(), p)
}

// Refuse changes the ranges that Replace was told. It writes nothing where they
// are the same.
func (t *Table) Refuse(ranges []netip.Prefix) error {
	want := t.refusable(ranges)
	if slices.Equal(want, t.refused) {
		return nil
	}
	t.conn.FlushSet(t.ranges)
	if err := t.conn.SetAddElements(t.ranges, intervals(want)); err != nil {
		return fmt.Errorf("nftables: ranges: %w", err)
	}
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	t.refused = want
	return nil
}

// refusable are those of the table's family, in order and apart.
func (t *Table) refusable(ranges []netip.Prefix) (out []netip.Prefix) {
	for _, p := range ranges {
		if t.family.Has(p.Addr()) {
			out = append(out, p.Masked())
		}
	}
	return apart(out)
}

// Change puts the part want of the program in the place of the part had, in
// one transaction. It costs what the parts hold, whatever else is in force.
// After an error the rules are as they were; make a new Table.
func (t *Table) Change(had, want Program) error {
	d := diff(had, want)
	// What another part has taken over meanwhile is not this one's to drop.
	d.dropFrontends = slices.DeleteFunc(d.dropFrontends, func(f Frontend) bool { return t.inForce.Frontends[f] != had.Frontends[f] })
	for _, f := range d.addFrontends {
		if other, ok := t.inForce.Frontends[f]; ok && other != had.Frontends[f] {
			had.Frontends[f] = other
			d.dropFrontends = append(d.dropFrontends, f)
		}
	}
	if err := t.elements(d.dropFrontends, had.Frontends, t.conn.SetDeleteElements); err != nil {
		return err
	}
	if err := t.hairpins(podChanges(d, had, want)); err != nil {
		return err
	}
	// No rule may lead to a chain that goes, nor to one that is yet to come:
	// gates are closed first and opened last, those at the far end first.
	for _, name := range append(d.dropGates, d.setGates...) {
		if _, ok := had.Gates[name]; ok {
			t.conn.FlushChain(&nftables.Chain{Name: name, Table: t.table})
		}
	}
	for _, name := range d.dropGates {
		t.conn.DelChain(&nftables.Chain{Name: name, Table: t.table})
	}
	for _, name := range d.dropChains {
		c := &nftables.Chain{Name: name, Table: t.table}
		t.conn.FlushChain(c)
		t.conn.DelChain(c)
		if a := had.Chains[name].Affinity; a > 0 {
			t.conn.DelSet(t.affinity(name, a))
		}
	}
	for _, name := range d.setChains {
		if err := t.chain(name, had.Chains[name], want.Chains[name]); err != nil {
			return err
		}
	}
	slices.SortFunc(d.setGates, func(a, b string) int { return want.depth(a) - want.depth(b) })
	for _, name := range d.setGates {
		if err := t.writeGate(name, want.Gates[name]); err != nil {
			return err
		}
	}
	if err := t.elements(d.addFrontends, want.Frontends, t.conn.SetAddElements); err != nil {
		return err
	}
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	t.settle(d, had, want)
	return nil
}

// settle records what is now in force.
func (t *Table) settle(d changes, had, want Program) {
	for a, n := range podChanges(d, had, want) {
		if t.pods[a] += n; t.pods[a] == 0 {
			delete(t.pods, a)
		}
	}
	for _, f := range d.dropFrontends {
		delete(t.inForce.Frontends, f)
	}
	for _, f := range d.addFrontends {
		t.inForce.Frontends[f] = want.Frontends[f]
	}
	for _, name := range d.dropChains {
		delete(t.inForce.Chains, name)
	}
	for _, name := range d.setChains {
		t.inForce.Chains[name] = want.Chains[name]
	}
	for _, name := range d.dropGates {
		delete(t.inForce.Gates, name)
	}
	for _, name := range d.setGates {
		t.inForce.Gates[name] = want.Gates[name]
	}
}

// podChanges counts by how many chains more or fewer each backend is used.
func podChanges(d changes, had, want Program) map[netip.Addr]int {
	n := map[netip.Addr]int{}
	for _, names := range [][]string{d.dropChains, d.setChains} {
		for _, name := range names {
			for _, b := range had.Chains[name].Backends {
				n[b.Addr()]--
			}
			for _, b := range want.Chains[name].Backends {
				n[b.Addr()]++
			}
		}
	}
	return n
}

// chain writes a chain of backends anew.
func (t *Table) chain(name string, had, want Chain) error {
	c := t.conn.AddChain(&nftables.Chain{Name: name, Table: t.table})
	t.conn.FlushChain(c)
	if had.Affinity > 0 && had.Affinity != want.Affinity {
		t.conn.DelSet(t.affinity(name, had.Affinity))
		had.Affinity = 0
	}
	backends := &nftables.Set{Table: t.table, Anonymous: true, Constant: true, IsMap: true, KeyType: nftables.TypeInteger, DataType: t.addrPort}
	if err := t.conn.AddSet(backends, backendElements(want.Backends)); err != nil {
		return fmt.Errorf("nftables: backends of %s: %w", name, err)
	}
	// The client's address, when it is looked at, lies before the backend's.
	backend, port := t.behind(1), t.behind(2)
	pick := []expr.Any{
		&expr.Numgen{Register: reg0, Modulus: uint32(len(want.Backends)), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: reg0, DestRegister: backend, IsDestRegSet: true, SetName: backends.Name, SetID: backends.ID},
	}
	dnat := &expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(t.family.Number()), RegAddrMin: backend, RegProtoMin: port}
	if want.Affinity > 0 {
		clients := t.affinity(name, want.Affinity)
		if had.Affinity == 0 {
			if err := t.conn.AddSet(clients, nil); err != nil {
				return fmt.Errorf("nftables: clients of %s: %w", name, err)
			}
		} else if err := t.forgetClients(clients, want.Backends); err != nil {
			return err
		}
		remember := &expr.Dynset{SrcRegKey: reg0, SrcRegData: backend, SetName: clients.Name, SetID: clients.ID,
			Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: clients.Timeout}
		t.rule(c, t.loadSource(reg0), &expr.Lookup{SourceRegister: reg0, DestRegister: backend, IsDestRegSet: true, SetName: clients.Name, SetID: clients.ID}, remember, dnat)
		pick = append(pick, t.loadSource(reg0), remember)
	}
	t.rule(c, pick, dnat)
	return nil
}

// affinity is the map from a client to the backend it got.
func (t *Table) affinity(chain string, seconds int32) *nftables.Set {
	return &nftables.Set{Table: t.table, Name: "clients-" + chain, IsMap: true, Dynamic: true, HasTimeout: true, Size: 65535,
		Timeout: time.Duration(seconds) * time.Second, KeyType: t.family.Key(), DataType: t.addrPort}
}

// forgetClients lets go the clients of backends that are gone.
func (t *Table) forgetClients(clients *nftables.Set, backends []netip.AddrPort) error {
	elements, err := t.conn.GetSetElements(clients)
	if err != nil {
		return fmt.Errorf("nftables: read %s: %w", clients.Name, err)
	}
	var stale []nftables.SetElement
	for _, e := range elements {
		if !slices.ContainsFunc(backends, func(b netip.AddrPort) bool { return string(addrPortBytes(b)) == string(e.Val) }) {
			stale = append(stale, nftables.SetElement{Key: e.Key, Val: e.Val})
		}
	}
	for part := range slices.Chunk(stale, portion) {
		if err := t.conn.SetDeleteElements(clients, part); err != nil {
			return fmt.Errorf("nftables: %w", err)
		}
	}
	return nil
}

func (t *Table) elements(fronts []Frontend, to map[Frontend]string, change func(*nftables.Set, []nftables.SetElement) error) error {
	var byAddr, byPort []nftables.SetElement
	for _, f := range fronts {
		verdict := &expr.Verdict{Kind: expr.VerdictGoto, Chain: to[f]}
		tail := []byte{f.Proto, 0, 0, 0, byte(f.Port >> 8), byte(f.Port), 0, 0}
		if f.Addr.IsValid() {
			byAddr = append(byAddr, nftables.SetElement{Key: append(f.Addr.AsSlice(), tail...), VerdictData: verdict})
		} else {
			byPort = append(byPort, nftables.SetElement{Key: tail, VerdictData: verdict})
		}
	}
	for part := range slices.Chunk(byAddr, portion) {
		if err := change(t.frontends, part); err != nil {
			return fmt.Errorf("nftables: frontends: %w", err)
		}
	}
	for part := range slices.Chunk(byPort, portion) {
		if err := change(t.ports, part); err != nil {
			return fmt.Errorf("nftables: ports: %w", err)
		}
	}
	return nil
}

// hairpins keeps the pairs by which a pod that reaches itself through a
// service is recognised.
func (t *Table) hairpins(pods map[netip.Addr]int) error {
	var add, drop []nftables.SetElement
	for a, n := range pods {
		pair := nftables.SetElement{Key: append(a.AsSlice(), a.AsSlice()...)}
		switch had := t.pods[a]; {
		case had == 0 && n > 0:
			add = append(add, pair)
		case had > 0 && had+n == 0:
			drop = append(drop, pair)
		}
	}
	for part := range slices.Chunk(drop, portion) {
		if err := t.conn.SetDeleteElements(t.hairpin, part); err != nil {
			return fmt.Errorf("nftables: hairpin: %w", err)
		}
	}
	for part := range slices.Chunk(add, portion) {
		if err := t.conn.SetAddElements(t.hairpin, part); err != nil {
			return fmt.Errorf("nftables: hairpin: %w", err)
		}
	}
	return nil
}

func backendElements(backends []netip.AddrPort) []nftables.SetElement {
	elements := make([]nftables.SetElement, len(backends))
	for i, b := range backends {
		elements[i] = nftables.SetElement{Key: binaryutil.NativeEndian.PutUint32(uint32(i)), Val: addrPortBytes(b)}
	}
	return elements
}

// addrPortBytes lays an address and a port out as the kernel keeps them, each
// in 4 bytes.
func addrPortBytes(b netip.AddrPort) []byte {
	return append(b.Addr().AsSlice(), binary.BigEndian.AppendUint32(nil, uint32(b.Port())<<16)...)
}
