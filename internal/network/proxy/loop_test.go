package proxy

import (
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"

	mdlayher "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/networktest"
	"github.com/setpoint-project/setpoint/loop"
)

// cluster is a world with an API server, whose proxy is turned by hand: the
// test's thread alone is in the machine.
type cluster struct {
	*world
	client client.Interface
	proxy  *Proxy
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{world: newWorld(t, network.IPv4), client: apitest.New(t, apitest.Options{}).Client("tester")}
	c.life()
	return c
}

// life begins another life of the proxy.
func (c *cluster) life() {
	c.t.Helper()
	if c.proxy != nil {
		c.proxy.close()
	}
	c.proxy = New(c.Host, "n1", c.client, slog.New(slog.DiscardHandler))
	c.t.Cleanup(c.proxy.close)
	c.sync()
	c.Must(c.proxy.start())
	c.turn(rangesKey)
}

// sync waits until the proxy's views and their indexes show all that is there.
func (c *cluster) sync() {
	c.t.Helper()
	_, revision, err := c.client.List(c.t.Context(), client.Services, "", metav1.ListOptions{})
	c.Must(err)
	for _, v := range []client.View{c.proxy.services, c.proxy.slices, c.proxy.pods, c.proxy.nodes, c.proxy.ranges} {
		c.Must(v.WaitSynced(c.t.Context()))
		c.Must(v.WaitFor(c.t.Context(), revision))
	}
}

func (c *cluster) turn(key loop.Key) loop.Outcome {
	c.t.Helper()
	c.sync()
	out, err := c.proxy.reconcile(c.t.Context(), key)
	c.Must(err)
	return out
}

// serve makes a service of both families, with an endpoint at each address of a
// list.
func (c *cluster) serve(name, ip string, at ...string) {
	c.t.Helper()
	policy, internal := corev1.IPFamilyPolicyRequireDualStack, corev1.ServiceInternalTrafficPolicyCluster
	ips := []string{ip, networktest.Text(network.IPv6, ip)}
	_, err := client.Create(c.t.Context(), c.client, client.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: ips[0], ClusterIPs: ips, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, IPFamilyPolicy: &policy,
		SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: &internal, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}}})
	c.Must(err)
	for _, addr := range at {
		s := slice(endpoint(addr, "n1", true, true, false))
		if netip.MustParseAddr(addr).Is6() {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.ObjectMeta = metav1.ObjectMeta{Namespace: "default", GenerateName: name + "-", Labels: map[string]string{discoveryv1.LabelServiceName: name}}
		_, err := client.Create(c.t.Context(), c.client, client.EndpointSlices, s)
		c.Must(err)
	}
}

// generation counts the changes of nftables rules in this network namespace.
func generation(t *testing.T) uint32 {
	t.Helper()
	conn, err := mdlayher.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers, err := conn.Execute(mdlayher.Message{
		Header: mdlayher.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: mdlayher.Request}, Data: make([]byte, 4)})
	if err != nil || len(answers) != 1 {
		t.Fatalf("%v, %v", answers, err)
	}
	attributes, err := mdlayher.UnmarshalAttributes(answers[0].Data[4:])
	if err != nil || len(attributes) == 0 {
		t.Fatalf("%v, %v", attributes, err)
	}
	return binary.BigEndian.Uint32(attributes[0].Data)
}

// TestBothFamilies: a service of both is reached in both, and what changes of
// the one costs the other nothing.
func TestBothFamilies(t *testing.T) {
	c := newCluster(t)
	c.pod("a", "10.42.0.2")
	c.pod("b", "10.42.0.3")
	key := loop.Key{Namespace: "default", Name: "web"}
	c.serve("web", "10.43.0.10", "10.42.0.2")
	if out := c.turn(key); out.State == loop.Converged {
		t.Errorf("without an endpoint of IPv6: %v", out)
	}
	c.expect("b", "tcp", "10.43.0.10:80", "a")
	c.family = network.IPv6
	c.refused("b", "10.43.0.10:80")

	before := generation(t)
	c.turn(key)
	if now := generation(t); now != before {
		t.Errorf("%d changes of rules though nothing changed", now-before)
	}
	s := as(t, network.IPv6, slice(endpoint("10.42.0.3", "n1", true, true, false)))
	s.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "web-6", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}
	_, err := client.Create(t.Context(), c.client, client.EndpointSlices, s)
	c.Must(err)
	if out := c.turn(key); out.State != loop.Converged {
		t.Errorf("with endpoints of both: %v", out)
	}
	if now := generation(t); now != before+1 {
		t.Errorf("%d changes of rules, want one, of IPv6", now-before)
	}
	c.expect("a", "tcp", "10.43.0.10:80", "b")
	c.family = network.IPv4
	c.expect("b", "tcp", "10.43.0.10:80", "a")

	// Another life takes over what is there, and finds all the same.
	c.life()
	before = generation(t)
	c.turn(key)
	c.turn(rangesKey)
	if now := generation(t); now != before {
		t.Errorf("%d changes of rules in a life that found all right", now-before)
	}
	c.expect("b", "tcp", "10.43.0.10:80", "a")
}

// TestServiceCIDRs: what is sent to an address of a further range, which no
// service has, never leaves the machine, though it has a way out.
func TestServiceCIDRs(t *testing.T) {
	c := newCluster(t)
	c.pod("a", "10.42.0.2")
	out := c.wayOut()
	key := loop.Key{Namespace: "default", Name: "web"}
	c.serve("web", "10.99.0.10", "10.42.0.2", networktest.Text(network.IPv6, "10.42.0.2"))
	c.turn(key)

	create := func(name string, cidrs ...string) {
		_, err := client.Create(t.Context(), c.client, client.ServiceCIDRs, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}})
		c.Must(err)
	}
	remove := func(name string) {
		c.Must(c.client.Delete(t.Context(), client.ServiceCIDRs, "", name, metav1.DeleteOptions{}))
	}
	both := func(do func()) {
		for _, c.family = range []network.Family{network.IPv4, network.IPv6} {
			do()
		}
	}
	routes := func() (n int) {
		for _, f := range []network.Family{network.IPv4, network.IPv6} {
			list, err := netlink.RouteList(nil, f.Number())
			c.Must(err)
			n += len(slices.DeleteFunc(list, func(r netlink.Route) bool { return r.Dst.IP.IsLinkLocalUnicast() }))
		}
		return n
	}
	had := routes()

	create("more", "10.99.0.0/16", networktest.Text(network.IPv6, "10.99.0.0/16"))
	create("kubernetes", "10.43.0.0/16", networktest.Text(network.IPv6, "10.43.0.0/16")) // the cluster's own
	c.Must(out.Listen())
	if got := c.turn(rangesKey); got.State != loop.Converged {
		t.Errorf("%v", got)
	}
	both(func() {
		for _, from := range []string{"", "a"} {
			c.expect(from, "tcp", "10.99.0.10:80", "a")
			c.refused(from, "10.99.0.11:80")
		}
	})
	if now := routes(); now != had+4 { // an unreachable one and one to the bridge, of each family
		t.Errorf("%d routes, %d before", now, had)
	}
	if heard := out.Heard("10.99.0.11"); heard {
		t.Error("what was for a service range left the machine")
	}
	before := generation(t)
	c.turn(rangesKey)
	if now := generation(t); now != before {
		t.Errorf("%d changes of rules though nothing changed", now-before)
	}

	// Ranges that would refuse what is none of services are left out, and told.
	create("unfit", "192.0.0.0/16")
	if got := c.turn(rangesKey); got.State == loop.Converged {
		t.Error("a range with an address of the machine is served")
	}
	remove("unfit")
	create("pods", "10.42.128.0/20")
	if got := c.turn(rangesKey); got.State == loop.Converged {
		t.Error("a range of pods is served")
	}
	remove("pods")
	beside := &network.Host{Config: network.Config{Instance: "other", ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16")},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.89.0.0/16")}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.88.0.0/24")}}}
	c.Must(beside.Up())
	create("beside", "10.88.7.0/24")
	if got := c.turn(rangesKey); got.State == loop.Converged {
		t.Error("a range of another cluster's is served")
	}
	remove("beside")
	c.Must(beside.Down())
	c.turn(rangesKey)

	// One that went while nobody looked leaves nothing.
	remove("more")
	c.life()
	if now := routes(); now != had {
		t.Errorf("%d routes, %d before", now, had)
	}
	create("more", "10.99.0.0/16", networktest.Text(network.IPv6, "10.99.0.0/16"))
	c.turn(rangesKey)
	remove("more")
	c.turn(rangesKey)
	if now := routes(); now != had {
		t.Errorf("%d routes, %d before", now, had)
	}
	// Nor does down, whatever ranges there are.
	create("more", "10.99.0.0/16", networktest.Text(network.IPv6, "10.99.0.0/16"))
	c.turn(rangesKey)
	c.Must(c.Host.Down())
	if left := routes(); left != out.routes {
		t.Errorf("%d routes left after Down, want those %d of the way out", left, out.routes)
	}
}

// TestServiceCIDRsOfNoUse: a range of a family that the cluster is not of is
// nobody's, and the machine may not even know that family.
func TestServiceCIDRsOfNoUse(t *testing.T) {
	c := newCluster(t)
	c.Must(c.Host.Down())
	c.Host.ClusterCIDRs, c.Host.ServiceCIDRs, c.Host.PodCIDRs = c.Host.ClusterCIDRs[:1], c.Host.ServiceCIDRs[:1], c.Host.PodCIDRs[:1]
	c.Must(c.Host.Up())
	c.life()
	_, err := client.Create(t.Context(), c.client, client.ServiceCIDRs, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"fd00:99::/112"}}})
	c.Must(err)
	if got := c.turn(rangesKey); got.State != loop.Converged {
		t.Errorf("%v", got)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V6)
	c.Must(err)
	for _, r := range routes {
		if !r.Dst.IP.IsLinkLocalUnicast() {
			t.Errorf("a cluster of IPv4 has made %v", r)
		}
	}
}

// wayOut is a link with a default route of each family, behind which nobody is.
type wayOut struct {
	c      *cluster
	far    netlink.Link
	fd     int
	routes int // of its own
}

func (c *cluster) wayOut() *wayOut {
	c.t.Helper()
	c.Must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "out"}, PeerName: "far"}))
	links := map[string]netlink.Link{}
	for _, name := range []string{"out", "far"} {
		link, err := netlink.LinkByName(name)
		c.Must(err)
		c.Must(netlink.LinkSetUp(link))
		links[name] = link
	}
	// Who asks for the router's hardware address need not wait for an answer.
	mac, _ := net.ParseMAC("02:00:00:00:00:01")
	for _, f := range []network.Family{network.IPv4, network.IPv6} {
		a, err := netlink.ParseAddr(networktest.Text(f, "192.0.2.1/24"))
		c.Must(err)
		a.Flags = unix.IFA_F_NODAD
		if f == network.IPv4 {
			a.Flags = 0
		}
		c.Must(netlink.AddrAdd(links["out"], a))
		router := net.ParseIP(networktest.Text(f, "192.0.2.254"))
		c.Must(netlink.NeighSet(&netlink.Neigh{LinkIndex: links["out"].Attrs().Index, IP: router, HardwareAddr: mac, State: netlink.NUD_PERMANENT}))
		c.Must(netlink.RouteAdd(&netlink.Route{Gw: router, LinkIndex: links["out"].Attrs().Index}))
	}
	return &wayOut{c: c, far: links["far"], routes: 4}
}

// Listen keeps what leaves from now on.
func (o *wayOut) Listen() (err error) {
	all := uint16(unix.ETH_P_ALL)
	all = all<<8 | all>>8
	if o.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all)); err != nil {
		return err
	}
	o.c.t.Cleanup(func() { unix.Close(o.fd) })
	return unix.Bind(o.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: o.far.Attrs().Index})
}

// Heard tells whether anything has left for an address, or its like of IPv6.
func (o *wayOut) Heard(addr string) bool {
	frame := make([]byte, 2000)
	for {
		n, err := unix.Read(o.fd, frame)
		if err != nil {
			return false
		}
		for _, f := range []network.Family{network.IPv4, network.IPv6} {
			to := netip.MustParseAddr(networktest.Text(f, addr)).AsSlice()
			at := 14 + int(f.DestinationOffset())
			if n >= at+len(to) && string(frame[at:at+len(to)]) == string(to) {
				return true
			}
		}
	}
}
