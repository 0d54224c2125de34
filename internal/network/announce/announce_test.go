package announce

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/networktest"
)

// TestChosen: all nodes agree, and a node that goes moves its addresses only.
func TestChosen(t *testing.T) {
	nodes := []string{"a", "b", "c", "d"}
	moved, of := 0, 0
	for i := range 200 {
		ip := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		was := chosen(nodes, ip)
		mixed := slices.Clone(nodes)
		slices.Reverse(mixed)
		if got := chosen(mixed, ip); got != was {
			t.Errorf("%s: %s or %s, by the order of the nodes", ip, was, got)
		}
		now := chosen(nodes[1:], ip)
		if was == "a" {
			of++
		} else if now != was {
			moved++
		}
	}
	if moved != 0 || of == 0 || of > 100 {
		t.Errorf("without a, %d addresses of others moved; a had %d of 200", moved, of)
	}
	if got := chosen(nil, netip.Addr{}); got != "" {
		t.Errorf("of no nodes, %q", got)
	}
}

// TestAddresses: the bridge has the pool's addresses that are this node's, and
// no others of it or of a pool before it; and the network hears of it: who
// remembered that the address was elsewhere reaches it here.
func TestAddresses(t *testing.T) {
	for _, f := range []network.Family{network.IPv4, network.IPv6} {
		t.Run(f.String(), func(t *testing.T) { testAddresses(t, f) })
	}
}

func testAddresses(t *testing.T, f network.Family) {
	m := networktest.New(t)
	bridge, err := netlink.LinkByName(m.Host.Bridge())
	must(t, err)
	far, err := netns.New() // moves the thread
	must(t, err)
	defer far.Close()
	must(t, netns.Set(m.Self))
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan"}, PeerName: "far", PeerNamespace: netlink.NsFd(far)}))
	inFar := func(do func()) {
		must(t, netns.Set(far))
		defer netns.Set(m.Self)
		do()
	}
	address := networktest.Text(f, "192.0.2.200")
	var remembered *netlink.Neigh
	inFar(func() {
		link := addLink(t, nil, "far")
		giveAddr(t, link, networktest.Text(f, "192.0.2.9/24"))
		mac, _ := net.ParseMAC("02:00:00:00:00:01")
		remembered = &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.ParseIP(address), HardwareAddr: mac, State: netlink.NUD_REACHABLE}
	})
	// The one that comes up second can send at once, the other some time later.
	lan := addLink(t, nil, "lan")
	giveAddr(t, lan, networktest.Text(f, "192.0.2.1/24"))

	c := apitest.New(t, apitest.Options{}).Client("tester")
	inPool := func(ip netip.Addr) bool {
		return ip.String() == address || ip.String() == networktest.Text(f, "192.0.2.250")
	}
	l := New(Options{Client: c, Node: "n1", Link: m.Host.Bridge(), Pool: inPool})
	have := func(link netlink.Link) (got []string) {
		t.Helper()
		list, err := netlink.AddrList(link, f.Number())
		must(t, err)
		for _, a := range list {
			if a.IP.IsGlobalUnicast() {
				got = append(got, a.IP.String())
			}
		}
		slices.Sort(got)
		return got
	}
	look := func(want ...string) {
		t.Helper()
		_, revision, err := c.List(t.Context(), client.Services, "", metav1.ListOptions{})
		must(t, err)
		for _, v := range []client.View{l.services, l.slices, l.nodes} {
			must(t, v.WaitFor(t.Context(), revision)) // the indexes hear of a write after the writer does
		}
		if _, err := l.reconcile(t.Context(), only); err != nil {
			t.Fatal(err)
		}
		if got := have(bridge); !slices.Equal(got, append([]string{networktest.Text(f, "10.42.0.1")}, want...)) {
			t.Errorf("addresses %v, want %v beside the bridge's own", got, want)
		}
		onLan := []string{networktest.Text(f, "192.0.2.1")}
		if f == network.IPv6 {
			onLan = append(onLan, want...)
		}
		if got := have(lan); !slices.Equal(got, onLan) {
			t.Errorf("addresses of the link %v, want %v", got, onLan)
		}
	}
	earlier := func(ip string) {
		t.Helper()
		must(t, take(bridge, netip.MustParseAddr(networktest.Text(f, ip))))
	}
	earlier("192.0.2.250")
	earlier("198.51.100.7") // with another pool
	file(t, c, "web", address, networktest.Text(f, "192.0.2.7"))
	look() // nobody is ready
	inFar(func() { must(t, netlink.NeighSet(remembered)) })
	ready(t, c, "n1")
	look(address)
	mustReach(t, f, inFar, address)
	look(address)
	must(t, netlink.LinkSetDown(lan))
	must(t, netlink.LinkSetUp(lan))
	if f == network.IPv6 { // the kernel has taken all that it had
		giveAddr(t, lan, networktest.Text(f, "192.0.2.1/24"))
	}
	look(address)
	mustReach(t, f, inFar, address)

	must(t, c.Delete(t.Context(), client.Services, "default", "web", metav1.DeleteOptions{}))
	look()
	earlier("192.0.2.250")
	must(t, Withdraw(m.Host.Bridge()))
	look()
	must(t, m.Host.Down())
	must(t, Withdraw(m.Host.Bridge())) // nothing to do
}

// mustReach connects to an address from afar.
func mustReach(t *testing.T, f network.Family, inFar func(func()), address string) {
	t.Helper()
	t.Helper()
	at, err := net.Listen("tcp"+string('0'+rune(f)), net.JoinHostPort(address, "0"))
	must(t, err)
	defer at.Close()
	var conn net.Conn
	inFar(func() { conn, err = net.DialTimeout("tcp", at.Addr().String(), time.Minute) })
	if err != nil {
		t.Errorf("from afar: %v", err)
		return
	}
	conn.Close()
}

// TestFollow: addresses of links are looked at as they change, those that tell
// of a network of IPv6.
func TestFollow(t *testing.T) {
	for text, want := range map[string]bool{"198.51.100.1": false, "fe80::7": false, "::1": false, "fd00:192:0:2::1": true, "2001:db8::1": true} {
		if got := matters(net.ParseIP(text)); got != want {
			t.Errorf("%s matters: %t, want %t", text, got, want)
		}
	}
	m := networktest.New(t)
	lan := addLink(t, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan"}, PeerName: "far"})
	ctx, cancel := context.WithCancel(t.Context())
	looks := make(chan bool)
	var following sync.WaitGroup
	following.Go(func() {
		runtime.LockOSThread() // never unlocked: its namespace is the test's
		if err := netns.Set(m.Self); err != nil {
			t.Error(err)
		} else {
			(&Loop{opts: Options{Logger: slog.New(slog.DiscardHandler)}}).follow(ctx, func() { looks <- true })
		}
		close(looks)
	})
	<-looks
	giveAddr(t, lan, "fd00:192:0:2::1/64")
	<-looks
	must(t, netlink.LinkSetDown(lan)) // the kernel takes its addresses
	<-looks
	cancel()
	for range looks { // the kernel may tell of one change twice
	}
	following.Wait()
}

// TestSource: this node's own connections do not come from a balancer's address,
// which may be another node's in a moment.
func TestSource(t *testing.T) {
	m := networktest.New(t)
	bridge, err := netlink.LinkByName(m.Host.Bridge())
	must(t, err)
	lan := addLink(t, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan"}, PeerName: "far"})
	addLink(t, nil, "far")
	giveAddr(t, lan, "fd00:192:0:2::1/64")
	must(t, take(bridge, netip.MustParseAddr("fd00:192:0:2::200")))
	conn, err := net.Dial("udp6", "[fd00:192:0:2::201]:9") // closer to that one
	must(t, err)
	defer conn.Close()
	if got := conn.LocalAddr().(*net.UDPAddr).IP.String(); got != "fd00:192:0:2::1" {
		t.Errorf("connections come from %s", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addLink adds a link, or finds one by name, and sets it up.
func addLink(t *testing.T, link netlink.Link, name ...string) netlink.Link {
	t.Helper()
	if link != nil {
		must(t, netlink.LinkAdd(link))
		name = []string{link.Attrs().Name}
	}
	link, err := netlink.LinkByName(name[0])
	must(t, err)
	must(t, netlink.LinkSetUp(link))
	return link
}

func giveAddr(t *testing.T, link netlink.Link, addr string) {
	t.Helper()
	a, err := netlink.ParseAddr(addr)
	must(t, err)
	if a.IP.To4() == nil {
		a.Flags = unix.IFA_F_NODAD
	}
	must(t, netlink.AddrAdd(link, a))
}

func file(t *testing.T, c client.Interface, name string, at ...string) {
	t.Helper()
	cluster, nodePorts := corev1.ServiceInternalTrafficPolicyCluster, false
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.43.0.9", ClusterIPs: []string{"10.43.0.9"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: &cluster, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
		AllocateLoadBalancerNodePorts: &nodePorts, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}
	got, err := client.Create(context.Background(), c, client.Services, svc)
	must(t, err)
	got = got.DeepCopy()
	for _, ip := range at {
		mode := corev1.LoadBalancerIPModeVIP
		got.Status.LoadBalancer.Ingress = append(got.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: &mode})
	}
	_, err = c.Update(context.Background(), client.Services, got, "status")
	must(t, err)
}

func ready(t *testing.T, c client.Interface, name string) {
	t.Helper()
	node, err := client.Create(context.Background(), c, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	must(t, err)
	node = node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err = c.Update(context.Background(), client.Nodes, node, "status"); err != nil {
		t.Fatal(fmt.Errorf("node %s: %w", name, err))
	}
}
