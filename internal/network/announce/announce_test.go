package announce

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
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
// no others of it or of a pool before it; and the network hears of it.
func TestAddresses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	ns, err := netns.New()
	must(t, err)
	defer ns.Close()
	bridge := addLink(t, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br"}}, "10.42.0.1/24")
	addLink(t, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan"}, PeerName: "far"}, "192.0.2.1/24")
	far := addLink(t, nil, "", "far")
	heard, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0x0608)
	must(t, err)
	defer unix.Close(heard)
	must(t, unix.Bind(heard, &unix.SockaddrLinklayer{Protocol: 0x0608, Ifindex: far.Attrs().Index}))
	must(t, unix.SetsockoptTimeval(heard, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))

	c := apitest.New(t, apitest.Options{}).Client("tester")
	l := New(Options{Client: c, Node: "n1", Link: "br", Pool: netip.MustParsePrefix("192.0.2.128/25").Contains})
	look := func(want ...string) {
		t.Helper()
		for _, v := range []client.View{l.services, l.slices, l.nodes} {
			must(t, v.WaitSynced(t.Context()))
		}
		if _, err := l.reconcile(t.Context(), only); err != nil {
			t.Fatal(err)
		}
		list, err := netlink.AddrList(bridge, netlink.FAMILY_V4)
		must(t, err)
		var got []string
		for _, a := range list {
			got = append(got, a.IP.String())
		}
		if !slices.Equal(got, append([]string{"10.42.0.1"}, want...)) {
			t.Errorf("addresses %v, want %v beside the bridge's own", got, want)
		}
	}
	earlier := func(ip net.IP) {
		t.Helper()
		must(t, netlink.AddrAdd(bridge, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(32, 32)}}))
	}
	earlier(net.IPv4(192, 0, 2, 250))
	earlier(net.IPv4(198, 51, 100, 7)) // with another pool
	file(t, c, "web", "192.0.2.200", "192.0.2.7")
	look() // nobody is ready
	ready(t, c, "n1")
	look("192.0.2.200")
	frame := make([]byte, 100)
	for {
		n, err := unix.Read(heard, frame)
		must(t, err)
		if n >= 42 && frame[0] == 0xff && netip.AddrFrom4([4]byte(frame[28:32])) == netip.MustParseAddr("192.0.2.200") {
			break
		}
	}
	must(t, c.Delete(t.Context(), client.Services, "default", "web", metav1.DeleteOptions{}))
	look()
	earlier(net.IPv4(192, 0, 2, 250))
	must(t, Withdraw("br"))
	look()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addLink adds a link, or finds one by name, and sets it up with an address.
func addLink(t *testing.T, link netlink.Link, addr string, name ...string) netlink.Link {
	t.Helper()
	if link != nil {
		must(t, netlink.LinkAdd(link))
		name = []string{link.Attrs().Name}
	}
	link, err := netlink.LinkByName(name[0])
	must(t, err)
	if addr != "" {
		a, err := netlink.ParseAddr(addr)
		must(t, err)
		must(t, netlink.AddrAdd(link, a))
	}
	must(t, netlink.LinkSetUp(link))
	return link
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
