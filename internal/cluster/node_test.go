package cluster

import (
	"net/netip"
	"os"
	"strings"
	"testing"
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
