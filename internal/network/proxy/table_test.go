package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/networktest"
)

// world is a machine whose pods answer. It is told addresses of IPv4, and means
// those of its family.
type world struct {
	*networktest.Machine
	family network.Family
	t      *testing.T
}

func newWorld(t *testing.T, f network.Family) *world {
	t.Helper()
	return &world{Machine: networktest.New(t), family: f, t: t}
}

// forEach runs a test for each family of addresses.
func forEach(t *testing.T, test func(*testing.T, network.Family)) {
	for _, f := range []network.Family{network.IPv4, network.IPv6} {
		t.Run(f.String(), func(t *testing.T) { test(t, f) })
	}
}

func (w *world) text(s string) string           { return networktest.Text(w.family, s) }
func (w *world) network(protocol string) string { return protocol + strconv.Itoa(int(w.family)) }

func (w *world) ports(addrs ...string) []netip.AddrPort { return portsOf(w.family, addrs...) }

func (w *world) front(addr string, proto uint8, port uint16) Frontend {
	return front(w.text(addr), proto, port)
}

func (w *world) table() *Table {
	w.t.Helper()
	table, err := NewTable(w.Host, w.family)
	w.Must(err)
	w.t.Cleanup(func() { table.Close() })
	return table
}

// pod adds a pod at addr with servers for TCP and UDP on port 8080 that answer
// with the pod's name and the client's address.
func (w *world) pod(name, addr string) {
	w.t.Helper()
	w.Pod(name, addr)
	w.answer(name)
}

// answer starts the servers of a pod.
func (w *world) answer(name string) {
	w.t.Helper()
	w.In(name, func() {
		tcp, err := net.Listen("tcp", ":8080")
		w.Must(err)
		udp, err := net.ListenPacket("udp", ":8080")
		w.Must(err)
		w.t.Cleanup(func() { tcp.Close(); udp.Close() })
		go func() {
			for {
				c, err := tcp.Accept()
				if err != nil {
					return
				}
				fmt.Fprintf(c, "%s %s\n", name, c.RemoteAddr().(*net.TCPAddr).IP)
				c.Close()
			}
		}()
		go func() {
			buf := make([]byte, 100)
			for {
				_, from, err := udp.ReadFrom(buf)
				if err != nil {
					return
				}
				udp.WriteTo([]byte(name+" udp\n"), from)
			}
		}()
	})
}

// patience bounds what takes microseconds; it only decides how long a failing
// test takes.
const patience = time.Minute

// ask connects from a pod (or the host, "") and returns who answered and whom
// the answerer saw.
func (w *world) ask(from, protocol, to string) (who, saw string, err error) {
	w.In(from, func() {
		var c net.Conn
		if c, err = net.DialTimeout(w.network(protocol), w.text(to), patience); err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintln(c, "who")
		var line string
		if line, err = bufio.NewReader(c).ReadString('\n'); err == nil {
			fmt.Sscan(line, &who, &saw)
		}
	})
	return who, saw, err
}

func (w *world) expect(from, protocol, to, who string) {
	w.t.Helper()
	got, _, err := w.ask(from, protocol, to)
	if err != nil || got != who {
		w.t.Errorf("%s from %q to %s: answered by %q (%v), want %q", protocol, from, to, got, err, who)
	}
}

func (w *world) refused(from, to string) {
	w.t.Helper()
	if who, _, err := w.ask(from, "tcp", to); !errors.Is(err, syscall.ECONNREFUSED) {
		w.t.Errorf("from %q to %s: answered by %q (%v), want connection refused", from, to, who, err)
	}
}

// silent wants no answer at all.
func (w *world) silent(from, to string) {
	w.t.Helper()
	w.In(from, func() {
		c, err := net.DialTimeout("tcp", w.text(to), 500*time.Millisecond)
		if err == nil {
			c.Close()
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			w.t.Errorf("from %q to %s: %v, want no answer", from, to, err)
		}
	})
}

func ports(addrs ...string) []netip.AddrPort { return portsOf(network.IPv4, addrs...) }

func portsOf(f network.Family, addrs ...string) []netip.AddrPort {
	var list []netip.AddrPort
	for _, a := range addrs {
		list = append(list, netip.MustParseAddrPort(networktest.Text(f, a)))
	}
	return list
}

func front(addr string, proto uint8, port uint16) Frontend {
	if addr == "" {
		return Frontend{Proto: proto, Port: port}
	}
	return Frontend{netip.MustParseAddr(addr), proto, port}
}

func program(chain string, c Chain, fronts ...Frontend) Program {
	p := newProgram()
	p.lead(chain, c, fronts...)
	return p
}

func TestTable(t *testing.T) { forEach(t, testTable) }

func testTable(t *testing.T, f network.Family) {
	w := newWorld(t, f)
	w.pod("a", "10.42.0.2")
	w.pod("b", "10.42.0.3")
	w.pod("c", "10.42.0.4")

	// The fence: nothing is served yet, and nothing leaves.
	if _, _, err := w.ask("", "tcp", "10.43.0.10:80"); !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EACCES) {
		t.Errorf("before the rules: %v, want unreachable", err)
	}

	table := w.table()
	const tcp, udp = unix.IPPROTO_TCP, unix.IPPROTO_UDP
	web := program("svc-web", Chain{Backends: w.ports("10.42.0.2:8080", "10.42.0.3:8080", "10.42.0.4:8080")},
		w.front("10.43.0.10", tcp, 80), w.front("", tcp, 30080))
	w.Must(table.Replace(web, w.Host.ServiceCIDRs))
	w.Must(w.Host.RouteServices(w.Host.ServiceCIDRs))

	for _, from := range []string{"", "a"} {
		seen := map[string]int{}
		for range 60 {
			who, saw, err := w.ask(from, "tcp", "10.43.0.10:80")
			if err != nil {
				t.Fatalf("from %q: %v", from, err)
			}
			seen[who]++
			// A pod is seen by its own address, but by itself as the bridge.
			if from == "a" && who != "a" && saw != w.text("10.42.0.2") {
				t.Errorf("%s saw the client as %s, want its own address", who, saw)
			}
		}
		// 60 draws among three leave one out once in 10^10 runs.
		if len(seen) != 3 {
			t.Errorf("from %q answered by %v, want all of a, b, c", from, seen)
		}
	}
	if _, _, err := w.ask("", "tcp", "10.42.0.1:30080"); err != nil {
		t.Errorf("node port: %v", err)
	}
	w.refused("", "10.43.0.11:80")
	w.refused("b", "10.43.0.10:81")
	w.refused("b", "10.43.200.1:443")

	// One backend left: only it answers, also to itself.
	one := program("svc-web", Chain{Backends: w.ports("10.42.0.2:8080")}, w.front("10.43.0.10", tcp, 80))
	w.Must(table.Change(web, one))
	w.expect("", "tcp", "10.43.0.10:80", "a")
	w.expect("a", "tcp", "10.43.0.10:80", "a")
	w.refused("", "10.42.0.1:30080")

	// UDP moves to another pod though the client keeps its port.
	dns := program("svc-dns", Chain{Backends: w.ports("10.42.0.2:8080")}, w.front("10.43.0.53", udp, 53))
	w.Must(table.Change(newProgram(), dns))
	w.In("c", func() {
		conn, err := net.Dial(w.network("udp"), w.text("10.43.0.53:53"))
		w.Must(err)
		defer conn.Close()
		for _, want := range []string{"a", "b"} {
			if want == "b" {
				moved := program("svc-dns", Chain{Backends: w.ports("10.42.0.3:8080")}, w.front("10.43.0.53", udp, 53))
				w.onHost(func() {
					w.Must(table.Change(dns, moved))
					w.Must(forgetUDP(f, goneBackends(dns, moved)))
				})
			}
			conn.SetDeadline(time.Now().Add(patience))
			fmt.Fprintln(conn, "who")
			buf := make([]byte, 100)
			n, err := conn.Read(buf)
			if err != nil || string(buf[:n]) != want+" udp\n" {
				t.Errorf("udp: %q, %v, want %s", buf[:n], err, want)
			}
		}
	})

	// Affinity: one client stays at one pod, until that pod is gone.
	sticky := program("svc-web", Chain{Backends: w.ports("10.42.0.2:8080", "10.42.0.3:8080", "10.42.0.4:8080"), Affinity: 100}, w.front("10.43.0.10", tcp, 80))
	w.Must(table.Change(one, sticky))
	first, _, err := w.ask("c", "tcp", "10.43.0.10:80")
	w.Must(err)
	for range 20 {
		w.expect("c", "tcp", "10.43.0.10:80", first)
	}
	rest := Chain{Affinity: 100}
	for _, b := range sticky.Chains["svc-web"].Backends {
		if who := map[string]string{w.text("10.42.0.2"): "a", w.text("10.42.0.3"): "b", w.text("10.42.0.4"): "c"}[b.Addr().String()]; who != first {
			rest.Backends = append(rest.Backends, b)
		}
	}
	fewer := program("svc-web", rest, w.front("10.43.0.10", tcp, 80))
	w.Must(table.Change(sticky, fewer))
	if who, _, err := w.ask("c", "tcp", "10.43.0.10:80"); err != nil || who == first {
		t.Errorf("answered by %q (%v), which is gone", who, err)
	}

	// All gone: refused. Then the table is written anew, over what is there.
	w.Must(table.Change(fewer, newProgram()))
	w.refused("", "10.43.0.10:80")
	second := w.table()
	w.Must(second.Replace(web, w.Host.ServiceCIDRs))
	w.expect("", "tcp", "10.42.0.2:8080", "a")
	if _, _, err := w.ask("", "tcp", "10.43.0.10:80"); err != nil {
		t.Errorf("after Replace: %v", err)
	}
	// The first table's picture is stale now: its change fails whole, and
	// changes nothing.
	if err := table.Change(sticky, newProgram()); err == nil {
		t.Error("a change of what is not there succeeded")
	}
	if _, _, err := w.ask("", "tcp", "10.43.0.10:80"); err != nil {
		t.Errorf("after a failed change: %v", err)
	}

	// Gates: the host is inside and goes to b, as pods do; c is not among the
	// sources of the second address.
	gated := newProgram()
	gated.lead("svc-b", Chain{Backends: w.ports("10.42.0.3:8080")})
	gated.lead("svc-a", Chain{Backends: w.ports("10.42.0.2:8080")})
	gated.gate("svc-outer", Gate{Sources: []netip.Prefix{netip.MustParsePrefix(w.text("10.42.0.1/32")), netip.MustParsePrefix(w.text("10.42.0.2/31"))}, Then: "svc-inner"})
	gated.gate("svc-inner", Gate{Inside: "svc-b", Then: "svc-a"})
	gated.Frontends[w.front("10.43.0.20", tcp, 80)] = "svc-inner"
	gated.Frontends[w.front("10.43.0.21", tcp, 80)] = "svc-outer"
	w.Must(second.Change(newProgram(), gated))
	w.expect("", "tcp", "10.43.0.20:80", "b")
	w.expect("c", "tcp", "10.43.0.20:80", "b")
	w.expect("", "tcp", "10.43.0.21:80", "b")
	w.expect("a", "tcp", "10.43.0.21:80", "b")
	w.silent("c", "10.43.0.21:80")
	open := newProgram()
	open.lead("svc-a", gated.Chains["svc-a"])
	open.gate("svc-outer", Gate{Then: "svc-inner"})
	open.gate("svc-inner", Gate{Then: "svc-a"})
	open.Frontends = gated.Frontends
	w.Must(second.Change(gated, open))
	w.expect("c", "tcp", "10.43.0.21:80", "a")
	w.Must(second.Change(open, newProgram()))
	w.refused("c", "10.43.0.21:80")

	// Many at once: more than one netlink attribute holds.
	many := newProgram()
	for i := range 3000 {
		many.lead(fmt.Sprintf("svc-%d", i), Chain{Backends: w.ports("10.42.0.2:8080")}, w.front(fmt.Sprintf("10.43.%d.%d", 100+i/250, i%250+1), tcp, 80))
	}
	w.Must(second.Change(newProgram(), many))
	w.expect("b", "tcp", "10.43.111.7:80", "a")

	w.Must(w.Host.Down())
	if _, err := netlink.LinkByName(w.Host.Bridge()); err == nil {
		t.Error("the bridge is still there after Down")
	}
	routes, err := netlink.RouteList(nil, f.Number())
	w.Must(err)
	for _, r := range routes {
		if !r.Dst.IP.IsLinkLocalUnicast() { // each link's own
			t.Errorf("left after Down: %v", r)
		}
	}
	w.Must(w.Host.Down()) // again: nothing to do
}

// onHost runs f back on the host while in is in a pod.
func (w *world) onHost(f func()) {
	pod, err := netns.Get()
	w.Must(err)
	defer pod.Close()
	w.Must(netns.Set(w.Self))
	defer netns.Set(pod)
	f()
}

// TestDrain: a connection to a pod that gets no new ones goes on.
func TestDrain(t *testing.T) { forEach(t, testDrain) }

func testDrain(t *testing.T, f network.Family) {
	w := newWorld(t, f)
	w.pod("a", "10.42.0.2")
	w.pod("b", "10.42.0.3")
	table := w.table()
	// The endpoint at a is ready, then it ends beside one that is ready.
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.43.0.10", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	plan := func(endpoints ...discoveryv1.Endpoint) Program {
		s := slice(endpoints...)
		s.Ports[0].Port = ptr(int32(7070))
		return PlanService(as(t, f, svc), []*discoveryv1.EndpointSlice{as(t, f, s)}, Self{Name: "n1"}, f)
	}
	served := plan(endpoint("10.42.0.2", "n1", true, true, false))
	drained := plan(endpoint("10.42.0.2", "n1", false, true, true), endpoint("10.42.0.3", "n1", true, true, false))
	w.Must(table.Replace(served, w.Host.ServiceCIDRs))
	w.Must(w.Host.RouteServices(w.Host.ServiceCIDRs))

	var listener net.Listener
	var err error
	w.In("a", func() { listener, err = net.Listen("tcp", ":7070") })
	w.Must(err)
	defer listener.Close()
	var client net.Conn
	w.In("b", func() { client, err = net.DialTimeout("tcp", w.text("10.43.0.10:80"), patience) })
	w.Must(err)
	defer client.Close()
	server, err := listener.Accept()
	w.Must(err)
	defer server.Close()

	w.Must(table.Change(served, drained))
	w.Must(forgetUDP(f, goneBackends(served, drained)))
	w.refused("", "10.43.0.10:80") // new ones go to b, where nobody listens
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		_, err := fmt.Fprintln(way[0], "still here")
		w.Must(err)
		way[1].SetDeadline(time.Now().Add(patience))
		if line, err := bufio.NewReader(way[1]).ReadString('\n'); line != "still here\n" {
			t.Errorf("a connection that was there: %q, %v", line, err)
		}
	}
	// Alone, the one that ends is better than none.
	w.Must(table.Change(drained, plan(endpoint("10.42.0.2", "n1", false, true, true))))
	w.In("b", func() {
		c, err := net.DialTimeout("tcp", w.text("10.43.0.10:80"), patience)
		w.Must(err)
		c.Close()
	})
}

// TestOutside: pods reach others by the node's address, and others reach pods by
// node ports.
func TestOutside(t *testing.T) { forEach(t, testOutside) }

func testOutside(t *testing.T, f network.Family) {
	w := newWorld(t, f)
	w.pod("a", "10.42.0.2")
	w.Outside("far", "192.0.2.9")
	w.answer("far")
	table := w.table()
	web := program("svc-web", Chain{Backends: w.ports("10.42.0.2:8080")}, w.front("", unix.IPPROTO_TCP, 30080))
	w.Must(table.Replace(web, w.Host.ServiceCIDRs))
	for _, c := range []struct{ from, to, who, saw string }{
		{"a", "192.0.2.9:8080", "far", "192.0.2.1"},
		{"a", "10.42.0.2:8080", "a", "10.42.0.2"},
		{"far", "192.0.2.1:30080", "a", "192.0.2.9"},
		{"", "192.0.2.9:8080", "far", "192.0.2.1"},
	} {
		who, saw, err := w.ask(c.from, "tcp", c.to)
		if err != nil || who != c.who || saw != w.text(c.saw) {
			t.Errorf("from %q to %s: answered by %q, who saw %s (%v), want %q, who sees %s", c.from, c.to, who, saw, err, c.who, w.text(c.saw))
		}
	}
	w.refused("far", "192.0.2.1:30081")
}

// TestNoPods: the host reaches what it serves itself, as the API server, and
// is refused what nobody serves, when there is no pod on the bridge yet.
func TestNoPods(t *testing.T) { forEach(t, testNoPods) }

func testNoPods(t *testing.T, f network.Family) {
	w := newWorld(t, f)
	w.answer("")
	table := w.table()
	api := program("svc-api", Chain{Backends: w.ports("10.42.0.1:8080")}, w.front("10.43.0.1", unix.IPPROTO_TCP, 443))
	w.Must(table.Replace(api, w.Host.ServiceCIDRs))
	w.Must(w.Host.RouteServices(w.Host.ServiceCIDRs))
	reached := func(from string) {
		t.Helper()
		if _, _, err := w.ask(from, "tcp", "10.43.0.1:443"); err != nil {
			t.Errorf("from %q: %v", from, err)
		}
	}
	reached("")
	w.refused("", "10.43.0.2:443")
	w.pod("a", "10.42.0.2")
	reached("a")
}

// TestAdvertisements: no pod tells another to be its router.
func TestAdvertisements(t *testing.T) {
	w := newWorld(t, network.IPv6)
	if !w.Host.BridgeFilter {
		t.Skip("this kernel does not filter bridged packets")
	}
	w.pod("a", "10.42.0.2")
	w.pod("b", "10.42.0.3")
	table := w.table()
	w.Must(table.Replace(newProgram(), w.Host.ServiceCIDRs))
	w.expect("a", "tcp", "10.42.0.3:8080", "b") // now the links are up
	socket := func() (fd int) {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		w.Must(err)
		w.t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	var to int
	w.In("b", func() { to = socket() })
	w.Must(unix.SetsockoptTimeval(to, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience.Seconds())}))
	const advertisement, echo = 134, 128
	w.In("a", func() {
		from := socket()
		w.Must(unix.SetsockoptInt(from, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 255))
		at := &unix.SockaddrInet6{Addr: netip.MustParseAddr(w.text("10.42.0.3")).As16()}
		w.Must(unix.Sendto(from, []byte{advertisement, 0, 0, 0, 64, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, at))
		w.Must(unix.Sendto(from, []byte{echo, 0, 0, 0, 0, 1, 0, 1}, 0, at))
	})
	message := make([]byte, 2000)
	for message[0] != echo {
		_, err := unix.Read(to, message)
		w.Must(err)
		if message[0] == advertisement {
			t.Error("a pod's advertisement of itself as a router came through")
		}
	}
}
