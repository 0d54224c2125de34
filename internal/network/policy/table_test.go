package policy

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/networktest"
)

// machine is one whose pods, and whose node, accept connections. It is told
// addresses of IPv4, and means those of its family.
type machine struct {
	*networktest.Machine
	family network.Family
	t      *testing.T
}

func newMachine(t *testing.T, f network.Family) *machine {
	t.Helper()
	m := &machine{Machine: networktest.New(t), family: f, t: t}
	m.serve("10.42.0.1:8080")
	m.serve("10.42.0.1:10053")
	return m
}

// serve accepts connections where the thread is.
func (m *machine) serve(addr string) {
	m.t.Helper()
	l, err := net.Listen("tcp", networktest.Text(m.family, addr))
	m.Must(err)
	m.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
}

func (m *machine) pod(name, addr string) {
	m.t.Helper()
	m.Pod(name, addr)
	m.In(name, func() {
		m.serve(addr + ":8080")
		m.serve(addr + ":9090")
	})
}

// reaches tells whether a connection from a pod ("" is the host) comes about.
// One that is wanted has a minute, which only decides how long a failing test
// takes; where none is wanted, nobody answers however long one waits.
func (m *machine) reaches(from, to string, wanted bool) bool {
	m.t.Helper()
	if from != "" {
		m.Must(netns.Set(m.Pods[from]))
		defer netns.Set(m.Self)
	}
	patience := 300 * time.Millisecond
	if wanted {
		patience = time.Minute
	}
	c, err := net.DialTimeout("tcp", networktest.Text(m.family, to), patience)
	if err == nil {
		c.Close()
		return true
	}
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		m.t.Errorf("from %q to %s: %v, want a connection or no answer", from, to, err)
	}
	return false
}

func TestTable(t *testing.T) {
	for _, f := range []network.Family{network.IPv4, network.IPv6} {
		t.Run(f.String(), func(t *testing.T) { testTable(t, f) })
	}
}

func testTable(t *testing.T, f network.Family) {
	m := newMachine(t, f)
	if !m.Host.BridgeFilter {
		t.Skip("this kernel does not filter bridged packets")
	}
	pods := []*corev1.Pod{pod("a", "web", "n1", "10.42.0.2"), pod("a", "db", "n1", "10.42.0.3"), pod("a", "x", "n1", "10.42.0.4")}
	for _, p := range pods {
		m.pod(p.Name, p.Status.PodIP)
		p.Status.PodIP = networktest.Text(f, p.Status.PodIP)
	}
	server := netip.MustParseAddrPort(networktest.Text(f, "10.42.0.1:10053"))
	table, err := NewTable(m.Host, f, []netip.AddrPort{server})
	m.Must(err)
	const web, db, x, node, dns = "10.42.0.2:8080", "10.42.0.3:8080", "10.42.0.4:8080", "10.42.0.1:8080", "10.42.0.1:10053"
	// policy puts policies into force and looks who reaches whom.
	type way struct{ from, to string }
	policy := func(what string, want map[way]bool, texts ...string) {
		t.Helper()
		var list []*networkingv1.NetworkPolicy
		for _, text := range texts {
			list = append(list, policyOf(t, networktest.Text(f, text)))
		}
		m.Must(table.Set(Plan(f, "n1", list, pods, nil)))
		for w, reached := range want {
			if got := m.reaches(w.from, w.to, reached); got != reached {
				t.Errorf("%s: from %q to %s: %t, want %t", what, w.from, w.to, got, reached)
			}
		}
	}
	policy("no policy", map[way]bool{{"web", db}: true, {"", db}: true, {"web", node}: true})
	const denyIn = `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}`
	policy("nobody may come in", map[way]bool{{"web", db}: false, {"web", x}: true, {"db", web}: true, {"", db}: true}, denyIn)
	const webIn = `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 8080}]}]}`
	policy("web may, at a port", map[way]bool{{"web", db}: true, {"web", "10.42.0.3:9090"}: false, {"x", db}: false}, denyIn, webIn)
	const blockIn = `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: "0.0.0.0/0", except: ["10.42.0.2/32"]}}]}]}`
	policy("all but web", map[way]bool{{"web", db}: false, {"x", db}: true}, blockIn)
	const denyOut = `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}`
	policy("web may not go out, but ask for names", map[way]bool{{"web", db}: false, {"web", node}: false, {"web", dns}: true, {"x", web}: true, {"", web}: true, {"x", node}: true}, denyOut)
	const webOut = `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: 8000, endPort: 8100}]}]}`
	policy("web to db, at a range of ports", map[way]bool{{"web", db}: true, {"web", "10.42.0.3:9090"}: false, {"web", x}: false}, denyOut, webOut)
	policy("both ends have a say", map[way]bool{{"web", db}: false, {"x", db}: false}, webOut, denyIn)

	// A connection that is there when a policy comes lives on.
	// (Beside the service proxy's rules the kernel follows all connections.)
	policy("open", map[way]bool{{"web", x}: true}, `{podSelector: {}, ingress: [{}]}`)
	m.Must(netns.Set(m.Pods["x"]))
	held, err := net.Listen("tcp", networktest.Text(f, "10.42.0.4:7070"))
	m.Must(err)
	m.Must(netns.Set(m.Pods["web"]))
	c, err := net.Dial("tcp", networktest.Text(f, "10.42.0.4:7070"))
	m.Must(err)
	m.Must(netns.Set(m.Self))
	peer, err := held.Accept()
	m.Must(err)
	policy("closed now", map[way]bool{{"web", "10.42.0.4:7070"}: false}, denyOut)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	peer.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := peer.Read(make([]byte, 1)); err != nil {
		t.Errorf("a connection that was there: %v", err)
	}
	held.Close()

	// Another life begins over what the last one left.
	table, err = NewTable(m.Host, f, nil)
	m.Must(err)
	policy("another life", map[way]bool{{"web", db}: true}, denyIn+" ", `{podSelector: {}, ingress: [{}]}`)
	policy("no policy left", map[way]bool{{"web", db}: true, {"web", dns}: true})
	m.Must(m.Host.Down())
}

// TestLink: neighbours find each other under any policy, though they have
// forgotten each other, and link-local addresses lead around none.
func TestLink(t *testing.T) {
	m := newMachine(t, network.IPv6)
	if !m.Host.BridgeFilter {
		t.Skip("this kernel does not filter bridged packets")
	}
	pods := []*corev1.Pod{pod("a", "web", "n1", "10.42.0.2"), pod("a", "db", "n1", "10.42.0.3")}
	for _, p := range pods {
		m.pod(p.Name, p.Status.PodIP)
		p.Status.PodIP = networktest.Text(network.IPv6, p.Status.PodIP)
	}
	// db answers at a link-local address too.
	const local = "[fe80::3%eth0]:6060"
	for name, addr := range map[string]string{"web": "fe80::2/64", "db": "fe80::3/64"} {
		m.In(name, func() {
			link, err := netlink.LinkByName("eth0")
			m.Must(err)
			a, err := netlink.ParseAddr(addr)
			m.Must(err)
			a.Flags = unix.IFA_F_NODAD
			m.Must(netlink.AddrAdd(link, a))
		})
	}
	m.In("db", func() { m.serve(local) })
	m.reaches("web", local, true)
	table, err := NewTable(m.Host, network.IPv6, nil)
	m.Must(err)
	set := func(texts ...string) {
		var list []*networkingv1.NetworkPolicy
		for _, text := range texts {
			list = append(list, policyOf(t, text))
		}
		m.Must(table.Set(Plan(network.IPv6, "n1", list, pods, nil)))
	}
	// Only web's connections to db are let pass, nothing that asks for addresses.
	set(`{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{ports: [{port: 8080}]}], egress: [{ports: [{port: 8080}]}]}`)
	forget := func() {
		links, err := netlink.LinkList()
		m.Must(err)
		for _, link := range links {
			list, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_V6)
			m.Must(err)
			for i := range list {
				if list[i].State != netlink.NUD_NOARP {
					m.Must(netlink.NeighDel(&list[i]))
				}
			}
		}
	}
	for _, name := range []string{"", "web", "db"} {
		m.In(name, forget)
	}
	if !m.reaches("web", "10.42.0.3:8080", true) {
		t.Error("neighbours do not find each other")
	}
	if m.reaches("web", local, false) {
		t.Error("a link-local address leads around the policies")
	}
	set()
	if !m.reaches("web", local, true) {
		t.Error("without policies link-local addresses are refused")
	}
}
