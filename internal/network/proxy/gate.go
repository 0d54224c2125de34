package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/network"
)

// Gate decides, before a chain, who goes where.
type Gate struct {
	// Sources are those who may come, in order and apart from each other; none:
	// everybody. Others get no answer.
	Sources []netip.Prefix
	// Inside is the chain for those who come from pods or from this node; "":
	// they go as others do.
	Inside string
	// Then is the chain or gate for all others; "": they are refused.
	Then string
}

func (g Gate) equal(o Gate) bool {
	return g.Inside == o.Inside && g.Then == o.Then && slices.Equal(g.Sources, o.Sources)
}

// gate adds a gate and returns its name.
func (p *Program) gate(name string, g Gate) string {
	p.Gates[name] = g
	return name
}

// depth is by how many gates one is before its chain.
func (p Program) depth(name string) int {
	g, ok := p.Gates[name]
	if !ok {
		return 0
	}
	return 1 + p.depth(g.Then)
}

// balancerAddresses are those at which a load balancer says that the service
// is reached, as far as connections come here with that address still on them.
func balancerAddresses(svc *corev1.Service, f network.Family) (out []netip.Addr) {
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IPMode != nil && *in.IPMode != corev1.LoadBalancerIPModeVIP {
			continue
		}
		if addr, err := netip.ParseAddr(in.IP); err == nil && f.Has(addr) {
			out = append(out, addr)
		}
	}
	return out
}

// sourceRanges are those who may come by way of the load balancer; none:
// everybody. Where all that are named are of the other family, nobody may. A node
// that asks at its own address comes from that address.
func sourceRanges(svc *corev1.Service, f network.Family) (out []netip.Prefix) {
	list := svc.Spec.LoadBalancerSourceRanges
	if len(list) == 0 {
		if text := strings.TrimSpace(svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]); text != "" {
			list = strings.Split(text, ",")
		}
	}
	for _, text := range list {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil && f.Has(p.Addr()) {
			out = append(out, p.Masked())
		}
	}
	if len(list) == 0 {
		return nil
	}
	for _, addr := range balancerAddresses(svc, f) {
		out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return apart(out)
}

// apart sorts prefixes and leaves out what lies in another.
func apart(list []netip.Prefix) (out []netip.Prefix) {
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	for _, p := range list {
		if len(out) == 0 || !out[len(out)-1].Contains(p.Addr()) {
			out = append(out, p)
		}
	}
	return out
}

// writeGate writes a gate anew.
func (t *Table) writeGate(name string, g Gate) error {
	c := t.conn.AddChain(&nftables.Chain{Name: name, Table: t.table})
	t.conn.FlushChain(c)
	if len(g.Sources) > 0 {
		sources := &nftables.Set{Table: t.table, Anonymous: true, Constant: true, Interval: true, KeyType: t.family.Key()}
		if err := t.conn.AddSet(sources, intervals(g.Sources)); err != nil {
			return fmt.Errorf("nftables: sources of %s: %w", name, err)
		}
		t.rule(c, t.loadSource(reg0), &expr.Lookup{SourceRegister: reg0, SetName: sources.Name, SetID: sources.ID, Invert: true},
			&expr.Verdict{Kind: expr.VerdictDrop})
	}
	if g.Inside != "" {
		to := &expr.Verdict{Kind: expr.VerdictGoto, Chain: g.Inside}
		if cluster := t.family.Of(t.host.ClusterCIDRs); cluster.IsValid() {
			t.rule(c, t.sourceIn(cluster, expr.CmpOpEq), to)
		}
		t.rule(c, &expr.Fib{Register: reg0, ResultADDRTYPE: true, FlagSADDR: true},
			&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)}, to)
	}
	if g.Then != "" {
		t.rule(c, &expr.Verdict{Kind: expr.VerdictGoto, Chain: g.Then})
	}
	return nil
}

// intervals are the elements of an interval set: where each begins, and where
// it is over.
func intervals(list []netip.Prefix) (out []nftables.SetElement) {
	if len(list) > 0 && !list[0].Addr().IsUnspecified() {
		out = append(out, nftables.SetElement{Key: make([]byte, list[0].Addr().BitLen()/8), IntervalEnd: true})
	}
	for _, p := range list {
		out = append(out, nftables.SetElement{Key: p.Addr().AsSlice()})
		if next := network.Last(p).Next(); next.IsValid() {
			out = append(out, nftables.SetElement{Key: next.AsSlice(), IntervalEnd: true})
		}
	}
	return out
}
