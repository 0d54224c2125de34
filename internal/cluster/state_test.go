package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
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
		pods := first.ClusterCIDRs.Primary()
		if room := 1 << (24 - pods.Bits()) * 7 / 8; room <= n || len(first.ClusterCIDRs) != 1 || pods.Overlaps(first.ServiceCIDRs[0]) || pods != pods.Masked() {
			t.Errorf("%d nodes: range %s has room for %d, services %s", n, pods, room, first.ServiceCIDRs)
		}
		if n <= simulatedInDefault && pods.Bits() != 16 {
			t.Errorf("%d nodes: range %s, want a /16", n, pods)
		}
		again, err := openState(&Options{DataDir: dir, Nodes: "sim=1"})
		if err != nil || again.ClusterCIDRs.Primary() != pods {
			t.Errorf("%d nodes: range %s, then %s and error %v", n, pods, again.ClusterCIDRs, err)
		}
	}
	if p := simulatedRange(20000, netip.MustParsePrefix("10.201.0.0/16")); p.String() != "10.0.0.0/9" {
		t.Errorf("beside services in the upper half: %s", p)
	}
	given := Prefixes{netip.MustParsePrefix("172.16.0.0/16")}
	s, err := openState(&Options{DataDir: t.TempDir(), Nodes: "sim=2000", ClusterCIDRs: given, ServiceCIDRs: Prefixes{netip.MustParsePrefix("172.17.0.0/16")}})
	if err != nil || !slices.Equal(s.ClusterCIDRs, given) {
		t.Errorf("the range that was asked for: %s, error %v", s.ClusterCIDRs, err)
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
	for _, r := range slices.Concat(s.ClusterCIDRs, s.ServiceCIDRs) {
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

// TestEarlierState: what a data folder of one family says is read as ever, and
// written so that it could be read before there were two.
func TestEarlierState(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cluster.json")
	const had = `{
  "instance": "abcdef",
  "clusterCIDR": "10.42.0.0/16",
  "serviceCIDR": "10.43.0.0/16",
  "node": "n",
  "podCIDR": "10.42.0.0/24",
  "nodeIP": "192.0.2.1"
}
`
	if err := os.WriteFile(path, []byte(had), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := LoadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.ClusterCIDRs.String() != "10.42.0.0/16" || s.ServiceCIDRs.String() != "10.43.0.0/16" || s.PodCIDRs.String() != "10.42.0.0/24" || s.NodeIPs.String() != "192.0.2.1" {
		t.Errorf("read %+v", s)
	}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != had {
		t.Errorf("wrote %s, error %v", now, err)
	}
	if gateways := Addresses(s.gateways()); gateways.String() != "10.42.0.1" {
		t.Errorf("gateways %s", gateways)
	}
}

// TestTakeParts: a node has the first part of each range; of a family that came
// later it takes one when it is made anew, unless another node has that.
func TestTakeParts(t *testing.T) {
	const four, both = "10.42.0.0/16", "10.42.0.0/16,fd00:42::/56"
	const first, firsts = "10.42.0.0/24", "10.42.0.0/24,fd00:42::/64"
	for _, c := range []struct{ cluster, had, self, other, want string }{
		{four, "", "", "", first},
		{both, "", "", "", firsts},
		{both, "", firsts, "", firsts}, // the folder was lost
		{both, firsts, firsts, "", firsts},
		{four, first, first, "", first},
		{both, first, first, "", first},
		{both, first, "", "", firsts},
		{both, first, "", "10.42.1.0/24,fd00:42:0:1::/64", firsts},
		{both, first, "", "10.42.1.0/24,fd00:42::/64", first},
	} {
		s := &State{}
		if err := errors.Join(s.ClusterCIDRs.Set(c.cluster), s.PodCIDRs.Set(c.had)); err != nil {
			t.Fatal(err)
		}
		var nodes []client.Object
		for name, parts := range map[string]string{"self": c.self, "other": c.other} {
			if parts != "" {
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: strings.Split(parts, ",")}})
			}
		}
		if s.takeParts("self", nodes); s.PodCIDRs.String() != c.want {
			t.Errorf("%+v: got %s", c, s.PodCIDRs)
		}
	}
}

// TestRangesTaken: ranges in which a link of this machine has an address are
// refused before they are remembered, at the first start and when a second family
// is added: the next start is as if they had not been named. Who is no node may
// have them.
func TestRangesTaken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 42, 0, 9), Mask: net.CIDRMask(24, 32)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	const had, taken = "fd00:42::/56 fd00:43::/112", "fd00:42::/56,10.42.0.0/16 fd00:43::/112,10.43.0.0/16"
	for _, c := range []struct{ nodes, first, then, last string }{
		{"host", "10.42.0.0/16 10.43.0.0/16", had, had},
		{"none", taken, had, taken},
		{"sim=3", taken, had, taken},
		{"host", had, taken, had},
		{"none", had, taken, taken},
	} {
		dir := t.TempDir()
		var got string
		for i, ranges := range []string{c.first, c.then, " "} {
			pods, services, _ := strings.Cut(ranges, " ")
			o := &Options{DataDir: dir, Nodes: c.nodes}
			if err := errors.Join(o.ClusterCIDRs.Set(pods), o.ServiceCIDRs.Set(services)); err != nil {
				t.Fatal(err)
			}
			s, err := openState(o)
			if refused := c.nodes == "host" && strings.Contains(pods, "10.42."); refused {
				if err == nil || !strings.Contains(err.Error(), "link lo has the address 10.42.0.9/24: name others") {
					t.Errorf("%+v, start %d: %v", c, i, err)
				}
				continue
			}
			if err == nil {
				err = s.save()
			}
			if err != nil {
				t.Fatalf("%+v, start %d: %v", c, i, err)
			}
			got = fmt.Sprint(s.ClusterCIDRs, " ", s.ServiceCIDRs)
		}
		if got != c.last {
			t.Errorf("%+v: %s at last", c, got)
		}
	}
}

// TestAddFamily: a later start adds a second family, and changes nothing else.
func TestAddFamily(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct{ pods, services, want, wrong string }{
		{"10.42.0.0/16", "10.43.0.0/16", "10.42.0.0/16 10.43.0.0/16", ""},
		{"", "", "10.42.0.0/16 10.43.0.0/16", ""},
		{"10.44.0.0/16,fd00:42::/56", "10.43.0.0/16,fd00:43::/112", "10.42.0.0/16 10.43.0.0/16", ""},
		{"fd00:42::/56,10.42.0.0/16", "fd00:43::/112,10.43.0.0/16", "10.42.0.0/16 10.43.0.0/16", ""},
		{"10.42.0.0/16,fd00:42::/56", "10.43.0.0/16,fd00:42::/112", "", "overlap"},
		{"10.42.0.0/16,fd00:42::/56", "10.43.0.0/16,fd00:43::/112", "10.42.0.0/16,fd00:42::/56 10.43.0.0/16,fd00:43::/112", ""},
		{"10.42.0.0/16", "10.43.0.0/16", "10.42.0.0/16,fd00:42::/56 10.43.0.0/16,fd00:43::/112", ""},
		{"", "", "10.42.0.0/16,fd00:42::/56 10.43.0.0/16,fd00:43::/112", ""},
	} {
		o := &Options{DataDir: dir}
		if err := errors.Join(o.ClusterCIDRs.Set(c.pods), o.ServiceCIDRs.Set(c.services)); err != nil {
			t.Fatal(err)
		}
		s, err := openState(o)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("start %d: %v, want %q", i, err, c.wrong)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(s.ClusterCIDRs, " ", s.ServiceCIDRs); got != c.want {
			t.Errorf("start %d: %s, want %s", i, got, c.want)
		}
	}
}

// TestKeptParts: what this machine has of the pod ranges, or will take, is given
// to no other node.
func TestKeptParts(t *testing.T) {
	for _, c := range []struct{ pods, own, server, want string }{
		{"10.42.0.0/16", "", "", ""},
		{"10.42.0.0/16", "10.42.0.0/24", "", "10.42.0.0/24"},
		{"10.42.0.0/16,fd00:42::/56", "10.42.0.0/24", "", "10.42.0.0/24,fd00:42::/64"},
		{"10.42.0.0/16,fd00:42::/56", "10.42.0.0/24,fd00:42::/64", "", "10.42.0.0/24,fd00:42::/64"},
		{"10.42.0.0/16", "10.42.7.0/24", "https://192.0.2.1:6443", ""},
	} {
		s := State{Server: c.server}
		if err := errors.Join(s.ClusterCIDRs.Set(c.pods), s.PodCIDRs.Set(c.own)); err != nil {
			t.Fatal(err)
		}
		if got := Prefixes(s.keptParts()).String(); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.own, c.pods, got, c.want)
		}
	}
}
