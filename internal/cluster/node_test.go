package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/pki"
)

// TestNodeName: the flag first, then what the data folder remembers, then the
// host name; a folder that cannot be read is no new machine.
func TestNodeName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := func(flag, want string) {
		t.Helper()
		got, err := nodeName(&Options{DataDir: dir, NodeName: flag})
		if err != nil || got != want {
			t.Errorf("with --node-name %q: got %q and error %v, want %q", flag, got, err, want)
		}
	}
	name("", strings.ToLower(host))
	name("other", "other")

	s, err := openState(&Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	name("", strings.ToLower(host))
	s.Node = "first"
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	name("", "first")
	name("other", "other")

	if err := os.WriteFile(s.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := nodeName(&Options{DataDir: dir}); err == nil {
		t.Errorf("with a spoilt cluster.json: got %q and no error", got)
	}
}

// TestNodeIP: what --node-ip said is remembered; a default is not, for it may
// be another next time.
func TestNodeIP(t *testing.T) {
	s := &State{}
	for _, c := range []struct{ flag, want string }{{"", ""}, {"192.0.2.1,fd00::1", "192.0.2.1,fd00::1"}, {"", "192.0.2.1,fd00::1"}, {"fd00::2", "fd00::2"}} {
		o := &Options{}
		if err := o.NodeIPs.Set(c.flag); err != nil {
			t.Fatal(err)
		}
		if rememberNodeIPs(o, s); o.NodeIPs.String() != c.want {
			t.Errorf("with --node-ip %s: got %s, want %s", c.flag, o.NodeIPs, c.want)
		}
	}
}

// TestCheckNodeIPs: an address that this machine does not have is refused before
// it is remembered; that of the bridge may yet come.
func TestCheckNodeIPs(t *testing.T) {
	own := Prefixes{netip.MustParsePrefix("10.42.0.0/24"), netip.MustParsePrefix("fd00::/64")}
	for _, c := range []struct {
		ip string
		ok bool
	}{{"", true}, {"127.0.0.1", true}, {"10.42.0.1", true}, {"fd00::1", true}, {"192.0.2.1", false}, {"127.0.0.1,fd01::1", false}} {
		var ips Addresses
		if err := ips.Set(c.ip); err != nil {
			t.Fatal(err)
		}
		if err := checkNodeIPs(ips, own); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.ip, err)
		}
	}
}

// TestPrimaryFirst: a node tells the address of the cluster's primary family
// first, whatever order the flag has, and an agent without the flag those of the
// cluster's families.
func TestPrimaryFirst(t *testing.T) {
	for _, c := range []struct{ ips, cluster, first, of string }{
		{"", "10.42.0.0/16", "", ""},
		{"192.0.2.1", "10.42.0.0/16", "192.0.2.1", "192.0.2.1"},
		{"192.0.2.1,2001:db8::1", "10.42.0.0/16", "192.0.2.1,2001:db8::1", "192.0.2.1"},
		{"2001:db8::1,192.0.2.1", "10.42.0.0/16,fd00::/56", "192.0.2.1,2001:db8::1", "2001:db8::1,192.0.2.1"},
		{"192.0.2.1,2001:db8::1", "fd00::/56,10.42.0.0/16", "2001:db8::1,192.0.2.1", "192.0.2.1,2001:db8::1"},
		{"192.0.2.1,2001:db8::1", "fd00::/56", "2001:db8::1,192.0.2.1", "2001:db8::1"},
		{"192.0.2.1", "fd00::/56", "192.0.2.1", ""},
	} {
		var ips Addresses
		var cluster Prefixes
		if err := errors.Join(ips.Set(c.ips), cluster.Set(c.cluster)); err != nil {
			t.Fatal(err)
		}
		if got := primaryFirst(ips, cluster).String(); got != c.first {
			t.Errorf("%s in %s: got %s, want %s", c.ips, c.cluster, got, c.first)
		}
		if got := ofFamilies(ips, cluster).String(); got != c.of {
			t.Errorf("%s for %s: got %s, want %s", c.ips, c.cluster, got, c.of)
		}
		if ips.String() != c.ips {
			t.Errorf("%s was changed to %s", c.ips, ips)
		}
	}
}

// TestServingCertificate: the API server's certificate is good at each address
// by which pods reach it, before this machine is a node and after.
func TestServingCertificate(t *testing.T) {
	authority, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct{ pods, services, node, want string }{
		{"10.42.0.0/16", "10.43.0.0/16", "", "10.42.0.1,10.43.0.1"},
		{"10.42.0.0/16,fd00:42::/56", "10.43.0.0/16,fd00:43::/112", "", "10.42.0.1,fd00:42::1,10.43.0.1,fd00:43::1"},
		{"10.42.0.0/16,fd00:42::/56", "10.43.0.0/16,fd00:43::/112", "10.42.7.0/24,fd00:42:0:7::/64", "10.42.7.1,fd00:42:0:7::1,10.43.0.1,fd00:43::1"},
		{"fd00:44::/56", "fd00:45::/112", "fd00:44::/64", "fd00:44::1,fd00:45::1"},
	} {
		state := &State{}
		var want Addresses
		if err := errors.Join(state.ClusterCIDRs.Set(c.pods), state.ServiceCIDRs.Set(c.services), state.PodCIDRs.Set(c.node)); err != nil {
			t.Fatal(err)
		}
		for text := range strings.SplitSeq(c.want, ",") {
			want = append(want, netip.MustParseAddr(text))
		}
		pair, err := (&controlPlane{opts: &Options{}, state: state, authority: authority, listeners: []net.Listener{l}}).servingCertificate()
		if err != nil {
			t.Fatal(err)
		}
		for _, ip := range want {
			if err := pair.Cert.VerifyHostname("[" + ip.String() + "]"); err != nil {
				t.Errorf("pods %s, services %s: %v", c.pods, c.services, err)
			}
		}
	}
}

func TestClusterDNS(t *testing.T) {
	for services, want := range map[string]string{"10.43.0.0/16": "[10.43.0.10]", "10.43.0.0/16,fd00:43::/112": "[10.43.0.10]", "fd00:43::/112,10.43.0.0/16": "[fd00:43::a]", "10.43.0.0/30": "[]"} {
		var list Prefixes
		if err := list.Set(services); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(clusterDNS(list)); got != want {
			t.Errorf("%s: got %s, want %s", services, got, want)
		}
	}
}
