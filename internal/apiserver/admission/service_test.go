package admission

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// server does with services what the API server does around the plugin.
type server struct {
	t    *testing.T
	w    world
	a    *ServiceAllocator
	uids int
}

func newServer(t *testing.T, cidrs ...string) *server {
	t.Helper()
	s := &server{t: t, w: world{}}
	s.restart(cidrs...)
	return s
}

func prefixes(cidrs ...string) (out []netip.Prefix) {
	for _, text := range cidrs {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func (s *server) restart(cidrs ...string) {
	a, err := NewServiceAllocator(prefixes(cidrs...), s.w.get, s.w.list)
	if err != nil {
		s.t.Fatal(err)
	}
	s.a = a
}

func (s *server) old(name string) *corev1.Service {
	svc, _ := s.w["services/web/"+name].(*corev1.Service)
	return svc
}

// write creates or updates a service as change leaves it.
func (s *server) write(name string, change func(*corev1.Service)) (*corev1.Service, error) {
	r, svc, err := s.admit(name, change)
	if err != nil {
		return nil, err
	}
	if svc.UID == "" {
		s.uids++
		svc.UID = types.UID(fmt.Sprint("uid", s.uids))
	}
	s.w["services/web/"+name] = svc
	if svc.DeletionTimestamp != nil && len(svc.Finalizers) == 0 {
		delete(s.w, "services/web/"+name)
	}
	run(r.Commit)
	return svc, nil
}

func (s *server) admit(name string, change func(*corev1.Service)) (*Request, *corev1.Service, error) {
	old := s.old(name)
	var r *Request
	svc := &corev1.Service{ObjectMeta: named("web", name), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Protocol: "TCP", Port: 80}},
	}}
	if old != nil {
		svc = old.DeepCopy()
	}
	if change != nil {
		change(svc)
	}
	if old != nil {
		r = request(Update, "services", svc, old)
	} else {
		r = request(Create, "services", svc, nil)
	}
	err := s.a.Admit(s.t.Context(), r)
	return r, svc, err
}

func (s *server) must(name string, change func(*corev1.Service)) *corev1.Service {
	s.t.Helper()
	svc, err := s.write(name, change)
	if err != nil {
		s.t.Fatal(err)
	}
	return svc
}

func (s *server) delete(name string) {
	s.t.Helper()
	old := s.old(name)
	r := request(Delete, "services", nil, old)
	if err := s.a.Admit(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
	if len(old.Finalizers) == 0 {
		delete(s.w, "services/web/"+name)
	}
	run(r.Commit)
}

func run(fs []func()) {
	for _, f := range fs {
		f()
	}
}

// taken is how many addresses and ports are held.
func (s *server) taken() [2]int {
	ips := 0
	for _, p := range s.a.mu.ips {
		ips += len(p.owner)
	}
	return [2]int{ips, len(s.a.mu.nodes.owner)}
}

func (s *server) wantTaken(ips, ports int) {
	s.t.Helper()
	if got := s.taken(); got != [2]int{ips, ports} {
		s.t.Errorf("%v addresses and ports are taken, want %d and %d", got, ips, ports)
	}
}

func ofType(t corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = t }
}

func withIP(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.ClusterIP = ip }
}

func withNodePort(port int32) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = port
	}
}

func TestClusterIP(t *testing.T) {
	s := newServer(t, "10.96.0.0/16")
	kubernetes := s.must("kubernetes", withIP("10.96.0.1"))
	if diff := cmp.Diff([]string{"10.96.0.1"}, kubernetes.Spec.ClusterIPs); diff != "" {
		t.Errorf("clusterIPs (-want +got):\n%s", diff)
	}
	a := s.must("a", nil)
	ip := netip.MustParseAddr(a.Spec.ClusterIP)
	if !netip.MustParsePrefix("10.96.0.0/16").Contains(ip) || ip.Less(netip.MustParseAddr("10.96.1.0")) {
		t.Errorf("got %s, want one above the addresses kept for those who ask", ip)
	}
	if *a.Spec.IPFamilyPolicy != "SingleStack" || len(a.Spec.IPFamilies) != 1 || a.Spec.IPFamilies[0] != "IPv4" {
		t.Errorf("families %v %v", *a.Spec.IPFamilyPolicy, a.Spec.IPFamilies)
	}
	_, err := s.write("b", withIP(a.Spec.ClusterIP))
	wantRefused(t, err, 422, `Service "b" is invalid: spec.clusterIPs: Invalid value: ["`+a.Spec.ClusterIP+`"]: failed to allocate IP `+a.Spec.ClusterIP+`: provided IP is already allocated`)
	for _, out := range []string{"10.97.0.1", "10.96.0.0", "10.96.255.255"} {
		_, err = s.write("b", withIP(out))
		wantRefused(t, err, 422, "is not in the valid range. The range of valid IPs is 10.96.0.0/16")
	}
	_, err = s.write("b", withIP("fd00::1"))
	wantRefused(t, err, 422, `spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster`)
	if _, err := s.write("bad", withIP("nonsense")); err != nil {
		t.Errorf("what is no address is for validation to refuse, got %v", err)
	}
	if none := s.must("headless", withIP("None")); none.Spec.ClusterIP != "None" || none.Spec.ClusterIPs[0] != "None" {
		t.Errorf("headless: %v", none.Spec)
	}
	if ext := s.must("ext", func(s *corev1.Service) { s.Spec.Type = "ExternalName" }); ext.Spec.ClusterIP != "" || ext.Spec.IPFamilies != nil {
		t.Errorf("external name: %v", ext.Spec)
	}
	s.wantTaken(2, 0)
	s.delete("a")
	s.wantTaken(1, 0)
	s.must("b", withIP(a.Spec.ClusterIP))
}

func TestNodePorts(t *testing.T) {
	s := newServer(t, "10.96.0.0/16")
	a := s.must("a", ofType("NodePort"))
	if p := a.Spec.Ports[0].NodePort; p < 30000 || p > 32767 {
		t.Errorf("node port %d", p)
	}
	s.must("b", withNodePort(30080))
	_, err := s.write("c", withNodePort(30080))
	wantRefused(t, err, 422, "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated")
	_, err = s.write("c", withNodePort(80))
	wantRefused(t, err, 422, "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767")
	s.wantTaken(2, 2) // the refused ones hold nothing
	dns := s.must("dns", func(s *corev1.Service) {
		s.Spec.Type = "NodePort"
		s.Spec.Ports = []corev1.ServicePort{{Protocol: "TCP", Port: 53}, {Protocol: "UDP", Port: 53}, {Protocol: "TCP", Port: 9153}}
	})
	if p := dns.Spec.Ports; p[0].NodePort != p[1].NodePort || p[0].NodePort == p[2].NodePort {
		t.Errorf("ports %v", p)
	}
	no := false
	lb := s.must("lb", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.AllocateLoadBalancerNodePorts = "LoadBalancer", &no
		s.Spec.ExternalTrafficPolicy = "Local"
	})
	if lb.Spec.Ports[0].NodePort != 0 || lb.Spec.HealthCheckNodePort == 0 {
		t.Errorf("load balancer without node ports: %v", lb.Spec)
	}
}

func TestUpdateKeepsWhatItDoesNotMention(t *testing.T) {
	s := newServer(t, "10.96.0.0/16")
	a := s.must("a", ofType("NodePort"))
	b := s.must("a", func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: "NodePort", Ports: []corev1.ServicePort{{Protocol: "TCP", Port: 443}, {Protocol: "TCP", Port: 80}}}
	})
	if b.Spec.ClusterIP != a.Spec.ClusterIP || b.Spec.ClusterIPs[0] != a.Spec.ClusterIP {
		t.Errorf("cluster IP %s became %s", a.Spec.ClusterIP, b.Spec.ClusterIP)
	}
	if b.Spec.Ports[1].NodePort != a.Spec.Ports[0].NodePort || b.Spec.Ports[0].NodePort == 0 {
		t.Errorf("node ports %v became %v", a.Spec.Ports, b.Spec.Ports)
	}
	s.wantTaken(1, 2)
}

func TestTypeChanges(t *testing.T) {
	s := newServer(t, "10.96.0.0/16")
	s.must("a", ofType("NodePort"))
	s.wantTaken(1, 1)
	if a := s.must("a", ofType("ClusterIP")); a.Spec.Ports[0].NodePort != 0 || a.Spec.ClusterIP == "" {
		t.Errorf("as ClusterIP: %v", a.Spec)
	}
	s.wantTaken(1, 0)
	if a := s.must("a", ofType("ExternalName")); a.Spec.ClusterIP != "" || a.Spec.ClusterIPs != nil || a.Spec.IPFamilies != nil {
		t.Errorf("as ExternalName: %v", a.Spec)
	}
	s.wantTaken(0, 0)
	if a := s.must("a", ofType("LoadBalancer")); a.Spec.ClusterIP == "" || a.Spec.Ports[0].NodePort == 0 {
		t.Errorf("as LoadBalancer: %v", a.Spec)
	}
	s.wantTaken(1, 1)
}

func TestRollbackAndDryRun(t *testing.T) {
	s := newServer(t, "10.96.0.0/16")
	r, _, err := s.admit("a", ofType("NodePort"))
	if err != nil {
		t.Fatal(err)
	}
	s.wantTaken(1, 1)
	run(r.Rollback)
	run(r.Rollback) // twice does no harm
	s.wantTaken(0, 0)
	r = request(Create, "services", &corev1.Service{ObjectMeta: named("web", "x"), Spec: corev1.ServiceSpec{Type: "ClusterIP"}}, nil)
	r.DryRun = true
	mustAdmit(t, s.a, r)
	run(r.Commit)
	s.wantTaken(0, 0)
	// An update that fails gives back only what it took.
	s.must("b", nil)
	r, _, err = s.admit("b", ofType("NodePort"))
	if err != nil {
		t.Fatal(err)
	}
	run(r.Rollback)
	s.wantTaken(1, 0)
}

func TestFinalizersHoldTheAddress(t *testing.T) {
	s := newServer(t, "10.96.0.0/16")
	s.must("a", func(s *corev1.Service) { s.Finalizers = []string{"x/y"} })
	s.delete("a")
	s.wantTaken(1, 0)
	now := metav1.Now()
	s.must("a", func(s *corev1.Service) { s.DeletionTimestamp = &now })
	s.wantTaken(1, 0)
	s.must("a", func(s *corev1.Service) { s.Finalizers = nil })
	s.wantTaken(0, 0)
}

func TestSmallRangeFillsUpAndIsFreed(t *testing.T) {
	s := newServer(t, "10.0.0.0/29") // 6 addresses
	for i := range 6 {
		s.must(fmt.Sprint("s", i), nil)
	}
	_, err := s.write("more", nil)
	wantRefused(t, err, 500, "range is full")
	// Somebody deleted a service behind the plugin's back.
	delete(s.w, "services/web/s3")
	s.must("more", nil)
}

func TestAddressOfAServiceThatIsGoneIsFree(t *testing.T) {
	s := newServer(t, "10.96.0.0/16")
	a := s.must("a", withNodePort(30080))
	other, err := s.write("b", withNodePort(30081))
	if err != nil {
		t.Fatal(err)
	}
	delete(s.w, "services/web/a") // nobody told the plugin
	again := s.must("c", func(svc *corev1.Service) {
		withNodePort(30080)(svc)
		withIP(a.Spec.ClusterIP)(svc)
	})
	if again.Spec.Ports[0].NodePort != 30080 || again.Spec.ClusterIP != a.Spec.ClusterIP {
		t.Errorf("got %v", again.Spec)
	}
	_, err = s.write("d", withNodePort(other.Spec.Ports[0].NodePort))
	wantRefused(t, err, 422, "provided port is already allocated")
	s.wantTaken(2, 2)
	// A request that is under way keeps what it holds.
	r, open, err := s.admit("e", withNodePort(30090))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.write("f", withNodePort(30090))
	wantRefused(t, err, 422, "provided port is already allocated")
	_, err = s.write("f", withIP(open.Spec.ClusterIP))
	wantRefused(t, err, 422, "provided IP is already allocated")
	run(r.Rollback)
	s.must("f", withNodePort(30090))
}

func TestRestartKnowsWhatIsTaken(t *testing.T) {
	s := newServer(t, "10.96.0.0/16")
	a := s.must("a", withNodePort(30500))
	s.restart("10.96.0.0/16")
	_, err := s.write("b", withIP(a.Spec.ClusterIP))
	wantRefused(t, err, 422, "already allocated")
	_, err = s.write("b", withNodePort(30500))
	wantRefused(t, err, 422, "already allocated")
	s.must("a", func(s *corev1.Service) { s.Labels = map[string]string{"x": "y"} })
}

func TestFamilies(t *testing.T) {
	s := newServer(t, "10.96.0.0/16")
	require, prefer := corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicyPreferDualStack
	_, err := s.write("a", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &require })
	wantRefused(t, err, 422, `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`)
	_, err = s.write("a", func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6"} })
	wantRefused(t, err, 422, `spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`)
	if a := s.must("a", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &prefer }); *a.Spec.IPFamilyPolicy != prefer || len(a.Spec.IPFamilies) != 1 {
		t.Errorf("prefer: %v", a.Spec)
	}
	b := s.must("b", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.Selector = "None", nil })
	if *b.Spec.IPFamilyPolicy != require || len(b.Spec.IPFamilies) != 2 {
		t.Errorf("headless without selector: %v", b.Spec)
	}
}

// Whatever is done, what is taken is exactly what the services hold.
func TestRandomWalk(t *testing.T) {
	t.Run("one family", func(t *testing.T) { randomWalk(t, "10.0.0.0/27") })
	t.Run("two families", func(t *testing.T) { randomWalk(t, "10.0.0.0/27", "fd00::/123") })
}

func randomWalk(t *testing.T, cidrs ...string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := newServer(t, cidrs...)
	policies := []corev1.IPFamilyPolicy{"SingleStack", "PreferDualStack", "RequireDualStack"}
	random := func() func(*corev1.Service) {
		return func(svc *corev1.Service) {
			svc.Spec.Type = []corev1.ServiceType{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}[rng.IntN(4)]
			if svc.Spec.Type != "ExternalName" && rng.IntN(2) == 0 {
				svc.Spec.IPFamilyPolicy = &policies[rng.IntN(3)]
			}
		}
	}
	for step := range 2000 {
		name := fmt.Sprint("s", rng.IntN(40))
		switch {
		case rng.IntN(3) == 0 && s.old(name) != nil:
			s.delete(name)
		case rng.IntN(5) == 0:
			if r, _, err := s.admit(name, random()); err == nil {
				run(r.Rollback)
			}
		default:
			_, _ = s.write(name, random()) // may be full
		}
		if s.a.mu.ips == nil {
			continue
		}
		held := map[number]bool{}
		for _, o := range s.w {
			for _, n := range s.a.numbersOf(o.(*corev1.Service)) {
				if held[n] {
					t.Fatalf("step %d: two services hold %v", step, n.n)
				}
				held[n] = true
			}
		}
		if got := s.taken(); got[0]+got[1] != len(held) {
			t.Fatalf("step %d: %v taken, %d held", step, got, len(held))
		}
	}
}

func TestRangeIsChecked(t *testing.T) {
	for _, cidrs := range [][]string{{}, {"fd00::/107"}, {"fd00::/127"}, {"10.0.0.0/31"}, {"10.0.0.0/8"}, {"10.0.0.0/16", "10.1.0.0/16"}, {"10.0.0.0/16", "fd00::/64"}, {"10.0.0.0/16", "fd00::/112", "fd01::/112"}} {
		if _, err := NewServiceAllocator(prefixes(cidrs...), nil, nil); err == nil {
			t.Errorf("%s was accepted", cidrs)
		}
	}
}

// cidr is a ServiceCIDR that is ready, or not.
func (s *server) cidr(name, cidr string, ready metav1.ConditionStatus) *networkingv1.ServiceCIDR {
	c := &networkingv1.ServiceCIDR{ObjectMeta: named("", name), Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
	c.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: ready}}
	s.w["servicecidrs//"+name] = c
	return c
}

// Further ServiceCIDRs give addresses once they are ready, and until they are
// being deleted; what a service has of them it keeps.
func TestFurtherRanges(t *testing.T) {
	s := newServer(t, "10.0.0.0/30") // two addresses
	s.must("a", nil)
	s.must("b", nil)
	first := s.cidr("kubernetes", "10.0.0.0/30", "True")
	more := s.cidr("more", "10.9.0.0/30", "False")
	s.cidr("six", "fd00::/64", "True")
	_, err := s.write("c", nil)
	wantRefused(t, err, 500, "range is full")
	_, err = s.write("c", withIP("10.9.0.1"))
	wantRefused(t, err, 422, "failed to allocate IP 10.9.0.1: the provided IP (10.9.0.1) is not in the valid range. The range of valid IPs is 10.0.0.0/30")
	s.cidr("more", "10.9.0.0/30", "True")
	if c := s.must("c", withIP("10.9.0.1")); c.Spec.ClusterIP != "10.9.0.1" {
		t.Errorf("cluster IP %s", c.Spec.ClusterIP)
	}
	if d := s.must("d", nil); d.Spec.ClusterIP != "10.9.0.2" {
		t.Errorf("cluster IP %s, want the last of the second range", d.Spec.ClusterIP)
	}
	_, err = s.write("e", withIP("10.8.0.1"))
	wantRefused(t, err, 422, "The range of valid IPs is 10.0.0.0/30, 10.9.0.0/30")
	s.wantTaken(4, 0)

	s.delete("d")
	now := metav1.Now()
	more.DeletionTimestamp = &now
	s.w["servicecidrs//more"] = more
	_, err = s.write("d", nil)
	wantRefused(t, err, 500, "range is full")
	s.must("c", func(s *corev1.Service) { s.Labels = map[string]string{"kept": "yes"} })
	s.restart("10.0.0.0/30")
	s.must("c", func(s *corev1.Service) { s.Labels = map[string]string{"kept": "still"} })
	s.delete("a")
	first.DeletionTimestamp = &now
	_, err = s.write("d", nil)
	wantRefused(t, err, 500, "range is full")
}

// An IPAddress made by hand keeps its address for whom it names.
func TestReservedAddresses(t *testing.T) {
	s := newServer(t, "10.0.0.0/29") // six addresses
	reserve := func(ip, name string, labels map[string]string) {
		s.w["ipaddresses//"+ip] = &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: labels},
			Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "web", Name: name}}}
	}
	reserve("10.0.0.2", "mine", nil)
	reserve("10.0.0.3", "other", nil)
	reserve("10.0.0.4", "gone", map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"})
	_, err := s.write("a", withIP("10.0.0.3"))
	wantRefused(t, err, 422, "failed to allocate IP 10.0.0.3: provided IP is already allocated")
	if got := s.must("mine", withIP("10.0.0.2")).Spec.ClusterIP; got != "10.0.0.2" {
		t.Errorf("cluster IP %s", got)
	}
	for i := range 4 {
		if got := s.must(fmt.Sprint("s", i), nil).Spec.ClusterIP; got == "10.0.0.3" {
			t.Errorf("s%d got what is kept for another", i)
		}
	}
	_, err = s.write("more", nil)
	wantRefused(t, err, 500, "range is full")
	s.wantTaken(5, 0)
	delete(s.w, "ipaddresses//10.0.0.3")
	if got := s.must("more", nil).Spec.ClusterIP; got != "10.0.0.3" {
		t.Errorf("cluster IP %s once it is free", got)
	}
}

// What a service had in its second family is free once it gives it up, and not
// before that is stored.
func TestSecondAddressIsReleased(t *testing.T) {
	s := newServer(t, "10.0.0.0/24", "fd00::/120")
	both, one := corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack
	a := s.must("a", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &both })
	second := a.Spec.ClusterIPs[1]
	s.wantTaken(2, 0)
	r, _, err := s.admit("a", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &one })
	if err != nil {
		t.Fatal(err)
	}
	run(r.Rollback)
	_, err = s.write("b", withIP(second))
	wantRefused(t, err, 422, "failed to allocate IP "+second+": provided IP is already allocated")
	if a := s.must("a", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &one }); len(a.Spec.ClusterIPs) != 1 || len(a.Spec.IPFamilies) != 1 {
		t.Errorf("as SingleStack: %v", a.Spec)
	}
	s.wantTaken(1, 0)
	if b := s.must("b", withIP(second)); b.Spec.IPFamilies[0] != "IPv6" || len(b.Spec.IPFamilies) != 1 {
		t.Errorf("by an address of the second family: %v", b.Spec)
	}
	// What is spelled otherwise is the same address.
	_, err = s.write("c", withIP(netip.MustParseAddr(second).StringExpanded()))
	wantRefused(t, err, 422, "provided IP is already allocated")
	s.restart("10.0.0.0/24", "fd00::/120")
	_, err = s.write("c", withIP(second))
	wantRefused(t, err, 422, "provided IP is already allocated")
	s.delete("b")
	s.must("c", withIP(second))
}

// A service that prefers two families gets its second when it asks for it after
// the cluster has got one, and not by any other update.
func TestClusterGetsASecondFamily(t *testing.T) {
	prefer := corev1.IPFamilyPolicyPreferDualStack
	s := newServer(t, "10.0.0.0/24")
	s.must("a", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &prefer })
	s.restart("10.0.0.0/24", "fd00::/120")
	if a := s.must("a", func(s *corev1.Service) { s.Labels = map[string]string{"x": "y"} }); len(a.Spec.ClusterIPs) != 1 {
		t.Errorf("by another update: %v", a.Spec.ClusterIPs)
	}
	s.cidr("more", "fd01::/64", "True")
	s.cidr("huge", "fd02::/63", "True")
	_, err := s.write("b", withIP("fd02::7"))
	wantRefused(t, err, 422, "The range of valid IPs is fd00::/120, fd01::/64")
	a := s.must("a", func(s *corev1.Service) { s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd01::ffff:ffff:ffff:ffff") })
	if len(a.Spec.ClusterIPs) != 2 || len(a.Spec.IPFamilies) != 2 {
		t.Errorf("once it asks for one: %v", a.Spec)
	}
	if b := s.must("b", withIP("fd00::ff")); b.Spec.ClusterIP != "fd00::ff" {
		t.Errorf("the last of a range of IPv6: %v", b.Spec)
	}
}
