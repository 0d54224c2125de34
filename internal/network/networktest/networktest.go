// Package networktest gives tests a machine of their own: a network namespace
// with no way out, with the bridge of a node, and pods as further namespaces on
// that bridge. All have addresses of both families; tests speak of those of IPv4
// and turn what they say into the other by Text.
//
//	m := networktest.New(t)          // skips the test where it may make no namespace
//	m.Pod("web", "10.42.0.2")        // and fd00:10:42::2
//	m.In("web", func() { … })        // dial and listen from there
//
// The test's thread lives in the machine: whatever it opens is there, but what
// it starts in other goroutines is not.
package networktest

import (
	"net"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/network"
)

// Machine is a network namespace with a node's bridge, 10.42.0.1/24 and
// fd00:10:42::1/64.
type Machine struct {
	Host *network.Host
	Self netns.NsHandle
	Pods map[string]netns.NsHandle

	t testing.TB
}

// New makes a machine, which is gone when the test is over. It skips the test
// without root.
func New(t testing.TB) *Machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	self, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{t: t, Self: self, Pods: map[string]netns.NsHandle{}, Host: &network.Host{Config: network.Config{Instance: "test",
		ClusterCIDRs: both("10.42.0.0/16"), ServiceCIDRs: both("10.43.0.0/16"), PodCIDRs: both("10.42.0.0/24")}}}
	lo, err := netlink.LinkByName("lo")
	m.Must(err)
	m.Must(netlink.LinkSetUp(lo))
	m.Must(m.Host.Up())
	t.Cleanup(func() {
		for _, p := range m.Pods {
			p.Close()
		}
		self.Close()
	})
	return m
}

var ipv4 = regexp.MustCompile(`(\d+)\.(\d+)\.(\d+)\.(\d+)(?:/(\d+))?(:\d+)?`)

// Text is what a text about addresses of IPv4 says of a family: 10.42.0.2 is
// fd00:10:42::2 in IPv6, 10.42.0.0/24 is fd00:10:42::/64.
func Text(f network.Family, text string) string {
	if f == network.IPv4 {
		return text
	}
	return ipv4.ReplaceAllStringFunc(text, func(s string) string {
		m := ipv4.FindStringSubmatch(s)
		out := netip.MustParseAddr(strings.Join([]string{"fd00", m[1], m[2], m[3], "", m[4]}, ":")).String()
		if strings.HasPrefix(s, "0.0.0.0/") {
			out = "::"
		}
		if bits, err := strconv.Atoi(m[5]); err == nil {
			if bits > 24 {
				bits = 96 + bits
			} else if bits > 0 {
				bits = 16 + 2*bits
			}
			out += "/" + strconv.Itoa(bits)
		}
		if m[6] != "" {
			out = "[" + out + "]" + m[6]
		}
		return out
	})
}

func both(p string) []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix(p), netip.MustParsePrefix(Text(network.IPv6, p))}
}

// Must ends the test at an error.
func (m *Machine) Must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// Pod adds a namespace at an address of IPv4 and its like of IPv6, on a port of
// the bridge that sends a pod's own packets back to it, as a node's do.
func (m *Machine) Pod(name, addr string) {
	m.t.Helper()
	bridge, err := netlink.LinkByName(m.Host.Bridge())
	m.Must(err)
	port := m.join(name, bridge.Attrs().Index)
	m.Must(netlink.LinkSetHairpin(port, true))
	m.Must(netlink.LinkSetUp(port))
	m.settle(name, addr, m.Host.Gateways())
}

// Outside adds a namespace at an address of 192.0.2.0/24 and its like of IPv6,
// on a link of the machine's, which has the address 192.0.2.1 there. It knows no
// way to pods and services.
func (m *Machine) Outside(name, addr string) {
	m.t.Helper()
	port := m.join(name, 0)
	m.Must(netlink.LinkSetUp(port))
	for _, f := range []network.Family{network.IPv4, network.IPv6} {
		m.give(port, f, "192.0.2.1")
	}
	m.settle(name, addr, nil)
}

// join makes a namespace with a link to the machine, or to a bridge of it.
func (m *Machine) join(name string, bridge int) netlink.Link {
	m.t.Helper()
	ns, err := netns.New() // moves the thread
	m.Must(err)
	m.Pods[name] = ns
	m.Must(netns.Set(m.Self))
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = "v"+name, bridge
	m.Must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}))
	port, err := netlink.LinkByName("v" + name)
	m.Must(err)
	return port
}

// give gives a link an address of a network that has as many as a node's pods.
func (m *Machine) give(link netlink.Link, f network.Family, addr string) {
	m.t.Helper()
	a, err := netlink.ParseAddr(Text(f, addr+"/24"))
	m.Must(err)
	if f == network.IPv6 {
		a.Flags = unix.IFA_F_NODAD
	}
	m.Must(netlink.AddrAdd(link, a))
	// The kernel takes what is for an address of IPv6 a moment later, and
	// neighbours that ask for it before that ask again after a second only.
	for {
		to, err := netlink.RouteGet(a.IP)
		if err == nil && len(to) > 0 && to[0].Type == unix.RTN_LOCAL {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// settle gives a namespace its addresses and its ways out, of each family.
func (m *Machine) settle(name, addr string, ways []netip.Addr) {
	m.t.Helper()
	m.In(name, func() {
		lo, err := netlink.LinkByName("lo")
		m.Must(err)
		m.Must(netlink.LinkSetUp(lo))
		link, err := netlink.LinkByName("eth0")
		m.Must(err)
		m.Must(os.WriteFile("/proc/sys/net/ipv6/conf/eth0/accept_dad", []byte("0"), 0)) // as the bridge plugin does
		m.Must(netlink.LinkSetUp(link))
		for _, f := range []network.Family{network.IPv4, network.IPv6} {
			m.give(link, f, addr)
		}
		for _, gw := range ways {
			m.Must(netlink.RouteAdd(&netlink.Route{Gw: net.IP(gw.AsSlice())}))
		}
	})
}

// In runs f with the thread in a pod's namespace ("" is the machine's).
func (m *Machine) In(pod string, f func()) {
	m.t.Helper()
	if pod != "" {
		m.Must(netns.Set(m.Pods[pod]))
		defer netns.Set(m.Self)
	}
	f()
}
