package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestSimulatedRange: every simulated node finds a /24 in the pod range, which
// is chosen at the first start and kept.
func TestSimulatedRange(t *testing.T) {
	for _, n := range []int{0, 200, 201, 2000, 20000} {
		dir := t.TempDir()
		first, err := openState(&Options{DataDir: dir, Nodes: fmt.Sprintf("sim=%d", n)})
		if err != nil {
			t.Fatal(err)
		}
		if room := 1 << (24 - first.ClusterCIDR.Bits()) * 7 / 8; room <= n || first.ClusterCIDR.Overlaps(first.ServiceCIDR) || first.ClusterCIDR != first.ClusterCIDR.Masked() {
			t.Errorf("%d nodes: range %s has room for %d, services %s", n, first.ClusterCIDR, room, first.ServiceCIDR)
		}
		if n <= simulatedInDefault && first.ClusterCIDR.Bits() != 16 {
			t.Errorf("%d nodes: range %s, want a /16", n, first.ClusterCIDR)
		}
		again, err := openState(&Options{DataDir: dir, Nodes: "sim=1"})
		if err != nil || again.ClusterCIDR != first.ClusterCIDR {
			t.Errorf("%d nodes: range %s, then %s and error %v", n, first.ClusterCIDR, again.ClusterCIDR, err)
		}
	}
	if p := simulatedRange(20000, netip.MustParsePrefix("10.201.0.0/16")); p.String() != "10.0.0.0/9" {
		t.Errorf("beside services in the upper half: %s", p)
	}
	given := netip.MustParsePrefix("172.16.0.0/16")
	s, err := openState(&Options{DataDir: t.TempDir(), Nodes: "sim=2000", ClusterCIDR: given, ServiceCIDR: netip.MustParsePrefix("172.17.0.0/16")})
	if err != nil || s.ClusterCIDR != given {
		t.Errorf("the range that was asked for: %s, error %v", s.ClusterCIDR, err)
	}
}

// TestNetworkIsRemembered: a start that does not say whose the addresses of
// load balancers and the names of services are changes nothing about it.
func TestNetworkIsRemembered(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct{ dns, pool, wantDNS, wantPool string }{
		{"", "", "builtin", "nodes"}, {"none", "192.0.2.0/28", "none", "192.0.2.0/28"}, {"", "", "none", "192.0.2.0/28"},
		{"", "none", "none", "none"}, {"builtin", "", "builtin", "none"}, {"", "nodes", "builtin", "nodes"}, {"", "", "builtin", "nodes"},
	} {
		o := &Options{DataDir: dir, DNS: c.dns, LoadBalancerPool: c.pool}
		s, err := openState(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
		if o.DNS != c.wantDNS || o.LoadBalancerPool != c.wantPool {
			t.Errorf("start %d: names by %s, addresses of %s; want %s, %s", i, o.DNS, o.LoadBalancerPool, c.wantDNS, c.wantPool)
		}
	}
	// Ranges that were chosen at the first start count at a later one.
	s, err := LoadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []netip.Prefix{s.ClusterCIDR, s.ServiceCIDR} {
		if _, err := openState(&Options{DataDir: dir, LoadBalancerPool: r.Addr().Next().String()}); err == nil || !strings.Contains(err.Error(), "overlaps "+r.String()) {
			t.Errorf("a pool inside %s: %v", r, err)
		}
	}
	// What is refused at the first start leaves no cluster behind.
	dir = t.TempDir()
	if _, err := openState(&Options{DataDir: dir, LoadBalancerPool: "10.0.0.0/12,10.16.0.0/12,10.32.0.0/12,10.48.0.0-10.255.255.255"}); err == nil {
		t.Error("a pool of all that pods and services could have is taken")
	}
	if _, err := LoadState(dir); !errors.Is(err, ErrNoCluster) {
		t.Errorf("what was refused left a cluster: %v", err)
	}
}
