package proxy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/networktest"
)

func ptr[T any](v T) *T { return &v }

// endpoint is short for one: address, node and what it is fit for.
func endpoint(addr, node string, ready, serving, terminating bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: &node,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}}
}

func slice(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolTCP)}}}
}

func TestPlanService(t *testing.T) {
	service := func(change func(*corev1.ServiceSpec)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}, Spec: corev1.ServiceSpec{
			ClusterIP: "10.43.0.10", Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
		if change != nil {
			change(&s.Spec)
		}
		return s
	}
	ready1, ready2 := endpoint("10.42.0.2", "n1", true, true, false), endpoint("10.42.1.2", "n2", true, true, false)
	unready := endpoint("10.42.0.9", "n1", false, false, false)
	ending := endpoint("10.42.0.8", "n1", false, true, true)
	hinted := func(e discoveryv1.Endpoint, node, zone string) discoveryv1.Endpoint {
		e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
		if node != "" {
			e.Hints.ForNodes = []discoveryv1.ForNode{{Name: node}}
		}
		return e
	}
	cluster, anyPort := front("10.43.0.10", unix.IPPROTO_TCP, 80), front("", unix.IPPROTO_TCP, 30080)

	type leads map[Frontend][]netip.AddrPort
	for name, test := range map[string]struct {
		svc    *corev1.Service
		slices []*discoveryv1.EndpointSlice
		want   leads
	}{
		"ready endpoints of two slices": {service(nil), []*discoveryv1.EndpointSlice{slice(ready2), slice(ready1, unready, ending)},
			leads{cluster: ports("10.42.0.2:8080", "10.42.1.2:8080")}},
		"one endpoint in two slices counts once": {service(nil), []*discoveryv1.EndpointSlice{slice(ready1), slice(ready1)},
			leads{cluster: ports("10.42.0.2:8080")}},
		"ending ones when none is ready": {service(nil), []*discoveryv1.EndpointSlice{slice(unready, ending)},
			leads{cluster: ports("10.42.0.8:8080")}},
		"none":     {service(nil), []*discoveryv1.EndpointSlice{slice(unready)}, leads{}},
		"headless": {service(func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }), []*discoveryv1.EndpointSlice{slice(ready1)}, leads{}},
		"external name": {service(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeExternalName }),
			[]*discoveryv1.EndpointSlice{slice(ready1)}, leads{}},
		"other port name": {service(func(s *corev1.ServiceSpec) { s.Ports[0].Name = "grpc" }), []*discoveryv1.EndpointSlice{slice(ready1)}, leads{}},
		"node port": {service(func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = 30080 }), []*discoveryv1.EndpointSlice{slice(ready1)},
			leads{cluster: ports("10.42.0.2:8080"), anyPort: ports("10.42.0.2:8080")}},
		"external traffic stays on the node": {service(func(s *corev1.ServiceSpec) {
			s.Ports[0].NodePort, s.ExternalTrafficPolicy = 30080, corev1.ServiceExternalTrafficPolicyLocal
		}), []*discoveryv1.EndpointSlice{slice(ready1, ready2)},
			leads{cluster: ports("10.42.0.2:8080", "10.42.1.2:8080"), anyPort: ports("10.42.0.2:8080")}},
		"internal traffic stays on the node": {service(func(s *corev1.ServiceSpec) {
			s.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
		}), []*discoveryv1.EndpointSlice{slice(ready2)}, leads{}},
		"external traffic to a node without endpoints": {service(func(s *corev1.ServiceSpec) {
			s.Ports[0].NodePort, s.ExternalTrafficPolicy = 30080, corev1.ServiceExternalTrafficPolicyLocal
		}), []*discoveryv1.EndpointSlice{slice(ready2)},
			leads{cluster: ports("10.42.1.2:8080"), anyPort: nil}},
		"the node's own": {service(nil), []*discoveryv1.EndpointSlice{slice(hinted(ready1, "n1", "z1"), hinted(ready2, "n2", "z1"))},
			leads{cluster: ports("10.42.0.2:8080")}},
		"the zone's own": {service(nil), []*discoveryv1.EndpointSlice{slice(hinted(ready1, "", "z1"), hinted(ready2, "", "z2"))},
			leads{cluster: ports("10.42.0.2:8080")}},
		"none in the node, so the zone's": {service(nil), []*discoveryv1.EndpointSlice{slice(hinted(ready1, "n3", "z2"), hinted(ready2, "n2", "z1"))},
			leads{cluster: ports("10.42.1.2:8080")}},
		"none near": {service(nil), []*discoveryv1.EndpointSlice{slice(hinted(ready1, "n3", "z3"), hinted(ready2, "n2", "z2"))},
			leads{cluster: ports("10.42.0.2:8080", "10.42.1.2:8080")}},
		"one without a hint": {service(nil), []*discoveryv1.EndpointSlice{slice(hinted(ready1, "n1", "z1"), ready2)},
			leads{cluster: ports("10.42.0.2:8080", "10.42.1.2:8080")}},
		"external address": {service(func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.1", "2001:db8::1"} }),
			[]*discoveryv1.EndpointSlice{slice(ready1)},
			leads{cluster: ports("10.42.0.2:8080"), front("192.0.2.1", unix.IPPROTO_TCP, 80): ports("10.42.0.2:8080")}},
	} {
		plan := func(t *testing.T, f network.Family) {
			var of []*discoveryv1.EndpointSlice
			want := leads{}
			for _, s := range test.slices {
				of = append(of, as(t, f, s), as(t, other(f), s)) // those of the other family are not its
			}
			for fr, to := range test.want {
				if fr.Addr.IsValid() {
					fr.Addr = netip.MustParseAddr(networktest.Text(f, fr.Addr.String()))
				}
				want[fr] = nil
				for _, b := range to {
					want[fr] = append(want[fr], netip.MustParseAddrPort(networktest.Text(f, b.String())))
				}
			}
			p := PlanService(as(t, f, test.svc), of, Self{Name: "n1", Zone: "z1"}, f)
			got := leads{}
			for f, chain := range p.Frontends {
				for g, ok := p.Gates[chain]; ok; g, ok = p.Gates[chain] {
					chain = g.Then
				}
				got[f] = p.Chains[chain].Backends
			}
			if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{}, netip.Addr{}, Frontend{})); d != "" {
				t.Errorf("frontends (-want +got):\n%s", d)
			}
			if p := PlanService(as(t, f, test.svc), of, Self{Name: "n1", Zone: "z1"}, other(f)); !p.empty() {
				t.Errorf("rules of the other family: %v", p)
			}
		}
		t.Run(name, func(t *testing.T) { forEach(t, plan) })
	}
}

func other(f network.Family) network.Family { return network.IPv4 + network.IPv6 - f }

// as is an object as it is in a family: its addresses are of it, but for those
// that were of IPv6.
func as[T any](t *testing.T, f network.Family, obj T) T {
	t.Helper()
	if f == network.IPv4 {
		return obj
	}
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	text := networktest.Text(f, string(data))
	text = strings.NewReplacer(`"IPv4"`, `"IPv6"`, "2001:db8::/32", "198.51.100.0/24", "2001:db8::1", "198.51.100.1").Replace(text)
	out := new(T)
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return *out
}

// TestPlanBoth: a service of both families has the rules of each, from its
// slices and its addresses of each; and each has whom its source ranges mean.
func TestPlanBoth(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}, Spec: corev1.ServiceSpec{
		ClusterIP: "fd00:10:43::10", ClusterIPs: []string{"fd00:10:43::10", "10.43.0.10"}, Type: corev1.ServiceTypeLoadBalancer,
		ExternalIPs: []string{"192.0.2.9", "2001:db8::9"}, LoadBalancerSourceRanges: []string{"2001:db8:1::/48"},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080}}}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}}
	v4 := slice(endpoint("10.42.0.2", "n1", true, true, false))
	v6 := as(t, network.IPv6, slice(endpoint("10.42.0.2", "n1", true, true, false), endpoint("10.42.0.3", "n1", true, true, false)))
	for f, want := range map[network.Family]struct {
		fronts, sources string
		backends        []netip.AddrPort
	}{
		network.IPv4: {"10.43.0.10 192.0.2.1 192.0.2.9 any", "[192.0.2.1/32]", ports("10.42.0.2:8080")},
		network.IPv6: {"2001:db8::1 2001:db8::9 any fd00:10:43::10", "[2001:db8::1/128 2001:db8:1::/48]", portsOf(network.IPv6, "10.42.0.2:8080", "10.42.0.3:8080")},
	} {
		p := PlanService(svc, []*discoveryv1.EndpointSlice{v4, v6}, Self{Name: "n1"}, f)
		var fronts []string
		for fr := range p.Frontends {
			if fronts = append(fronts, "any"); fr.Addr.IsValid() {
				fronts[len(fronts)-1] = fr.Addr.String()
			}
		}
		slices.Sort(fronts)
		if got := strings.Join(fronts, " "); got != want.fronts {
			t.Errorf("%s: frontends %s, want %s", f, got, want.fronts)
		}
		for _, c := range p.Chains {
			if !slices.Equal(c.Backends, want.backends) {
				t.Errorf("%s: backends %v, want %v", f, c.Backends, want.backends)
			}
		}
		for _, g := range p.Gates {
			if got := fmt.Sprint(g.Sources); got != want.sources {
				t.Errorf("%s: sources %s, want %s", f, got, want.sources)
			}
		}
		if len(p.Chains) != 1 || len(p.Gates) != 1 {
			t.Errorf("%s: %d chains and %d gates, want one of each", f, len(p.Chains), len(p.Gates))
		}
	}
}

func TestPlanPodHostPorts(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: corev1.PodStatus{PodIP: "10.42.0.7", Phase: corev1.PodRunning},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 53, HostPort: 53, HostIP: "192.0.2.1", Protocol: corev1.ProtocolUDP}, {ContainerPort: 9}}}}}}
	p := PlanPod(pod, network.IPv4)
	for f, want := range map[Frontend]string{
		front("", unix.IPPROTO_TCP, 8080):        "10.42.0.7:80",
		front("192.0.2.1", unix.IPPROTO_UDP, 53): "10.42.0.7:53",
	} {
		if got := p.Chains[p.Frontends[f]].Backends; len(got) != 1 || got[0].String() != want {
			t.Errorf("%v leads to %v, want %s", f, got, want)
		}
	}
	if len(p.Frontends) != 2 {
		t.Errorf("%d frontends, want 2", len(p.Frontends))
	}
	if p := PlanPod(pod, network.IPv6); !p.empty() {
		t.Errorf("host ports of a pod without an address of IPv6: %v", p)
	}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.42.0.7"}, {IP: "fd00:10:42::7"}}
	p = PlanPod(pod, network.IPv6)
	if to := p.Chains[p.Frontends[front("", unix.IPPROTO_TCP, 8080)]].Backends; len(p.Frontends) != 1 || len(to) != 1 || to[0].String() != "[fd00:10:42::7]:80" {
		t.Errorf("of IPv6: %v to %v, want the one port that is asked of every address", p.Frontends, to)
	}
	pod.Status.Phase = corev1.PodFailed
	if p := PlanPod(pod, network.IPv4); len(p.Frontends) != 0 {
		t.Errorf("a finished pod holds host ports: %v", p.Frontends)
	}
}

// TestPlanBalancer: who comes by the load balancer's address passes its source
// ranges; who comes by the node port does not. With the policy Local those from
// inside go anywhere.
func TestPlanBalancer(t *testing.T) { forEach(t, testPlanBalancer) }

func testPlanBalancer(t *testing.T, f network.Family) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.43.0.10", Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		LoadBalancerSourceRanges: []string{"198.51.100.0/24", " 198.51.100.7/32", "2001:db8::/32"},
		Ports:                    []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080}}}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: "192.0.2.1", IPMode: ptr(corev1.LoadBalancerIPModeVIP)}, {IP: "192.0.2.2", IPMode: ptr(corev1.LoadBalancerIPModeProxy)}, {Hostname: "a.test"}}
	p := PlanService(as(t, f, svc), []*discoveryv1.EndpointSlice{as(t, f, slice(endpoint("10.42.0.2", "n1", true, true, false), endpoint("10.42.1.2", "n2", true, true, false)))}, Self{Name: "n1"}, f)
	if len(p.Frontends) != 3 {
		t.Fatalf("frontends: %v", p.Frontends)
	}
	first := p.Gates[p.Frontends[front(networktest.Text(f, "192.0.2.1"), unix.IPPROTO_TCP, 80)]]
	if d := cmp.Diff([]netip.Prefix{netip.MustParsePrefix(networktest.Text(f, "192.0.2.1/32")), netip.MustParsePrefix(networktest.Text(f, "198.51.100.0/24"))}, first.Sources, cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Errorf("sources (-want +got):\n%s", d)
	}
	if first.Then != p.Frontends[front("", unix.IPPROTO_TCP, 30080)] {
		t.Error("the balancer's gate does not lead to where the node port leads")
	}
	second := p.Gates[first.Then]
	if got := p.Chains[second.Then].Backends; len(got) != 1 || got[0] != portsOf(f, "10.42.0.2:8080")[0] {
		t.Errorf("from outside: %v", got)
	}
	if got := p.Chains[second.Inside].Backends; len(got) != 2 {
		t.Errorf("from inside: %v", got)
	}
}
