// Package networktest gives tests a machine of their own: a network namespace
// with no way out, with the bridge of a node, and pods as further namespaces on
// that bridge.
//
//	m := networktest.New(t)          // skips the test where it may make no namespace
//	m.Pod("web", "10.42.0.2")
//	m.In("web", func() { … })        // dial and listen from there
//
// The test's thread lives in the machine: whatever it opens is there, but what
// it starts in other goroutines is not.
package networktest

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/setpoint-project/setpoint/internal/network"
)

// Machine is a network namespace with a node's bridge, 10.42.0.1/24.
type Machine struct {
	Host *network.Host
	Self netns.NsHandle
	Pods map[string]netns.NsHandle

	t *testing.T
}

// New makes a machine, which is gone when the test is over. It skips the test
// without root.
func New(t *testing.T) *Machine {
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
		ClusterCIDR: netip.MustParsePrefix("10.42.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.43.0.0/16"),
		PodCIDR: netip.MustParsePrefix("10.42.0.0/24")}}}
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

// Must ends the test at an error.
func (m *Machine) Must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// Pod adds a namespace at addr, on a port of the bridge that sends a pod's own
// packets back to it, as a node's do.
func (m *Machine) Pod(name, addr string) {
	m.t.Helper()
	ns, err := netns.New() // moves the thread
	m.Must(err)
	m.Pods[name] = ns
	m.Must(netns.Set(m.Self))
	bridge, err := netlink.LinkByName(m.Host.Bridge())
	m.Must(err)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = "v"+name, bridge.Attrs().Index
	m.Must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}))
	port, err := netlink.LinkByName("v" + name)
	m.Must(err)
	m.Must(netlink.LinkSetHairpin(port, true))
	m.Must(netlink.LinkSetUp(port))
	m.In(name, func() {
		for _, dev := range []string{"lo", "eth0"} {
			link, err := netlink.LinkByName(dev)
			m.Must(err)
			m.Must(netlink.LinkSetUp(link))
			if dev == "eth0" {
				a, err := netlink.ParseAddr(addr + "/24")
				m.Must(err)
				m.Must(netlink.AddrAdd(link, a))
				m.Must(netlink.RouteAdd(&netlink.Route{Gw: net.IP(m.Host.Gateway().AsSlice())}))
			}
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
