package network

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// machine puts the test's thread into a network namespace with no way out.
func machine(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	ns, err := netns.New()
	must(t, err)
	t.Cleanup(func() { ns.Close() })
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func config(cluster, services, pods []netip.Prefix) Config {
	return Config{Instance: "test", ClusterCIDRs: cluster, ServiceCIDRs: services, PodCIDRs: pods}
}

var (
	only4 = config(prefixes("10.42.0.0/16"), prefixes("10.43.0.0/16"), prefixes("10.42.3.0/24"))
	only6 = config(prefixes("fd00:42::/56"), prefixes("fd00:43::/112"), prefixes("fd00:42:0:3::/64"))
	dual  = config(prefixes("10.42.0.0/16", "fd00:42::/56"), prefixes("10.43.0.0/16", "fd00:43::/112"), prefixes("10.42.3.0/24", "fd00:42:0:3::/64"))
	// late came to its second family after the node.
	late = config(dual.ClusterCIDRs, dual.ServiceCIDRs, only4.PodCIDRs)
)

// state writes down what there is in the namespace besides what the kernel gives
// each link by itself.
func state(t *testing.T) string {
	t.Helper()
	var lines []string
	for _, f := range families {
		routes, err := netlink.RouteList(nil, f.Number())
		must(t, err)
		for _, r := range routes {
			if !r.Dst.IP.IsLinkLocalUnicast() {
				kind := map[int]string{unix.RTN_UNICAST: "route", unix.RTN_UNREACHABLE: "unreachable"}[r.Type]
				lines = append(lines, fmt.Sprintf("%s %s %d", kind, r.Dst, r.Priority))
			}
		}
	}
	links, err := netlink.LinkList()
	must(t, err)
	for _, link := range links {
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		must(t, err)
		for _, a := range addrs {
			if a.IP.IsGlobalUnicast() {
				lines = append(lines, fmt.Sprintf("address %s %s", link.Attrs().Name, a.IPNet))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestUp: what is wanted is there at once, in the families in use and no other,
// once more changes nothing, and down leaves nothing.
func TestUp(t *testing.T) {
	const (
		of4 = "address sp-test 10.42.3.1/24\nroute 10.42.3.0/24 0\nroute 10.43.0.0/16 64\nunreachable 10.42.0.0/16 4096\nunreachable 10.43.0.0/16 4096"
		of6 = "address sp-test fd00:42:0:3::1/64\nroute fd00:42:0:3::/64 256\nroute fd00:43::/112 64\nunreachable fd00:42::/56 4096\nunreachable fd00:43::/112 4096"
	)
	for name, c := range map[string]struct {
		config   Config
		want     string
		forward6 string
	}{
		"IPv4":               {only4, of4, "0"},
		"IPv6":               {only6, of6, "1"},
		"both":               {dual, of4 + "\n" + of6, "1"},
		"IPv6 later than me": {late, of4 + "\nunreachable fd00:42::/56 4096\nunreachable fd00:43::/112 4096", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			machine(t)
			// Machines that do not use IPv6 themselves have it off for new links.
			must(t, sysctl{"net/ipv6/conf/default/disable_ipv6", "1"}.set())
			h := &Host{Config: c.config}
			want := strings.Split(c.want, "\n")
			slices.Sort(want)
			for range 2 {
				must(t, h.Up())
				for _, gw := range h.Gateways() {
					l, err := net.Listen("tcp", net.JoinHostPort(gw.String(), "0"))
					if err != nil {
						t.Fatalf("the bridge's address is no good yet: %v", err)
					}
					l.Close()
					if to, err := netlink.RouteGet(gw.AsSlice()); err != nil || to[0].Type != unix.RTN_LOCAL {
						t.Errorf("the bridge's address is reached by %v (%v), not by itself", to, err)
					}
				}
				must(t, h.RouteServices(h.ServiceCIDRs))
				if got := state(t); got != strings.Join(want, "\n") {
					t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
				}
			}
			if got, err := (sysctl{name: "net/ipv6/conf/all/forwarding"}).get(); err != nil || got != c.forward6 {
				t.Errorf("forwarding of IPv6 is %s, want %s (%v)", got, c.forward6, err)
			}
			if c.forward6 == "1" {
				// Its link-local address, by which it asks for pods that packets are
				// forwarded to, is good at once; and pods tell it no way.
				for _, name := range []string{"accept_dad", "accept_ra"} {
					if got, err := (sysctl{name: "net/ipv6/conf/sp-test/" + name}).get(); err != nil || got != "0" {
						t.Errorf("%s of the bridge is %s, want 0 (%v)", name, got, err)
					}
				}
			}
			for range 2 {
				must(t, h.Down())
				if got := state(t); got != "" {
					t.Errorf("left after Down:\n%s", got)
				}
			}
		})
	}
}

// TestFence: what is for pods and services of either family goes nowhere from
// the first moment on, though there is a way out.
func TestFence(t *testing.T) {
	machine(t)
	wayOut(t, "192.0.2.1/24", "192.0.2.254", unix.RTPROT_STATIC)
	wayOut(t, "2001:db8::1/64", "2001:db8::fe", unix.RTPROT_STATIC)
	for _, to := range []string{"10.42.9.9", "10.43.9.9", "fd00:42:0:9::9", "fd00:43::99"} {
		if _, err := netlink.RouteGet(net.ParseIP(to)); err != nil {
			t.Errorf("before the fence %s has no way out: %v", to, err)
		}
	}
	must(t, (&Host{Config: dual}).Fence())
	for _, to := range []string{"10.42.9.9", "10.43.9.9", "fd00:42:0:9::9", "fd00:43::99"} {
		if got, err := netlink.RouteGet(net.ParseIP(to)); err == nil {
			t.Errorf("%s leaves by %v", to, got)
		}
	}
}

// wayOut adds a link with an address and a default route by a router.
func wayOut(t *testing.T, addr, router string, protocol int) netlink.Link {
	t.Helper()
	name := fmt.Sprintf("out%d", len(addr))
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "far"}))
	for _, one := range []string{name + "far", name} {
		link, err := netlink.LinkByName(one)
		must(t, err)
		must(t, netlink.LinkSetUp(link))
	}
	link, err := netlink.LinkByName(name)
	must(t, err)
	a, err := netlink.ParseAddr(addr)
	must(t, err)
	if a.IP.To4() == nil {
		a.Flags = unix.IFA_F_NODAD
	}
	must(t, netlink.AddrAdd(link, a))
	must(t, netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(router), LinkIndex: link.Attrs().Index, Protocol: netlink.RouteProtocol(protocol), Priority: 1000 + len(addr)}))
	return link
}

// TestKeepAdvertised: a machine that hears from routers where its ways out are
// goes on hearing it when it begins to forward; what else is set of advertisements
// is left as it is.
func TestKeepAdvertised(t *testing.T) {
	machine(t)
	cases := map[string]struct{ accept, forwarding, want string }{
		"heard":         {"1", "0", "2"},
		"byprogram":     {"0", "0", "0"},
		"heardanyway":   {"2", "0", "2"},
		"routeritself":  {"1", "1", "1"},
		"routerlistens": {"2", "1", "2"},
	}
	for name, c := range cases {
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "f" + name}))
		must(t, sysctl{"net/ipv6/conf/" + name + "/accept_ra", c.accept}.set())
		must(t, sysctl{"net/ipv6/conf/" + name + "/forwarding", c.forwarding}.set())
	}
	for range 2 { // the second time all of them forward
		must(t, (&Host{Config: dual}).Up())
		for name, c := range cases {
			if got, err := (sysctl{name: "net/ipv6/conf/" + name + "/accept_ra"}).get(); err != nil || got != c.want {
				t.Errorf("%s: accept_ra is %s, want %s (%v)", name, got, c.want, err)
			}
		}
	}
}

// TestCNIConf: a pod gets an address of each of the node's ranges, and a default
// route for each, which the plugin makes by isDefaultGateway.
func TestCNIConf(t *testing.T) {
	for _, c := range []Config{only4, only6, dual, late} {
		var conf struct {
			Plugins []struct {
				IsDefaultGateway bool
				EnableDAD        bool
				IPAM             struct {
					Ranges [][]struct{ Subnet netip.Prefix }
				}
			}
		}
		must(t, json.Unmarshal(c.CNIConf("/state"), &conf))
		var got []netip.Prefix
		for _, set := range conf.Plugins[0].IPAM.Ranges {
			if len(set) != 1 {
				t.Errorf("a set of %d ranges: a pod gets an address of one of them", len(set))
			}
			got = append(got, set[0].Subnet)
		}
		if !slices.Equal(got, c.PodCIDRs) || !conf.Plugins[0].IsDefaultGateway || conf.Plugins[0].EnableDAD {
			t.Errorf("ranges %v, want %v; %+v", got, c.PodCIDRs, conf.Plugins[0])
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{only4, only6, dual, late} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
	for text, change := range map[string]func(*Config){
		"instance":            func(c *Config) { c.Instance = "A" },
		"cluster range []":    func(c *Config) { c.ClusterCIDRs = nil },
		"one of IPv6":         func(c *Config) { c.ServiceCIDRs = prefixes("10.43.0.0/16", "10.44.0.0/16") },
		"overlap":             func(c *Config) { c.ServiceCIDRs = prefixes("10.43.0.0/16", "fd00:42::/112") },
		"does not lie":        func(c *Config) { c.PodCIDRs = prefixes("10.42.3.0/24", "fd00:44::/64") },
		"fewer than 8":        func(c *Config) { c.PodCIDRs = prefixes("fd00:42::/126") },
		"such as 10.42.0.0/1": func(c *Config) { c.ServiceCIDRs = prefixes("::ffff:10.43.0.0/112") },
		"in the cluster's":    func(c *Config) { c.ClusterCIDRs = prefixes("10.42.0.0/16") },
	} {
		c := dual
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want it to say %q", err, text)
		}
	}
}
