package proxy

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/network"
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
		t.Run(name, func(t *testing.T) {
			p := PlanService(test.svc, test.slices, Self{Name: "n1", Zone: "z1"}, network.IPv4)
			got := leads{}
			for f, chain := range p.Frontends {
				for g, ok := p.Gates[chain]; ok; g, ok = p.Gates[chain] {
					chain = g.Then
				}
				got[f] = p.Chains[chain].Backends
			}
			if d := cmp.Diff(test.want, got, cmpopts.EquateComparable(netip.AddrPort{}, netip.Addr{}, Frontend{})); d != "" {
				t.Errorf("frontends (-want +got):\n%s", d)
			}
		})
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
	pod.Status.Phase = corev1.PodFailed
	if p := PlanPod(pod, network.IPv4); len(p.Frontends) != 0 {
		t.Errorf("a finished pod holds host ports: %v", p.Frontends)
	}
}

// TestPlanBalancer: who comes by the load balancer's address passes its source
// ranges; who comes by the node port does not. With the policy Local those from
// inside go anywhere.
func TestPlanBalancer(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.43.0.10", Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		LoadBalancerSourceRanges: []string{"198.51.100.0/24", " 198.51.100.7/32", "2001:db8::/32"},
		Ports:                    []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080}}}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: "192.0.2.1", IPMode: ptr(corev1.LoadBalancerIPModeVIP)}, {IP: "192.0.2.2", IPMode: ptr(corev1.LoadBalancerIPModeProxy)}, {Hostname: "a.test"}}
	p := PlanService(svc, []*discoveryv1.EndpointSlice{slice(endpoint("10.42.0.2", "n1", true, true, false), endpoint("10.42.1.2", "n2", true, true, false))}, Self{Name: "n1"}, network.IPv4)
	if len(p.Frontends) != 3 {
		t.Fatalf("frontends: %v", p.Frontends)
	}
	first := p.Gates[p.Frontends[front("192.0.2.1", unix.IPPROTO_TCP, 80)]]
	if d := cmp.Diff([]netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("198.51.100.0/24")}, first.Sources, cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Errorf("sources (-want +got):\n%s", d)
	}
	if first.Then != p.Frontends[front("", unix.IPPROTO_TCP, 30080)] {
		t.Error("the balancer's gate does not lead to where the node port leads")
	}
	second := p.Gates[first.Then]
	if got := p.Chains[second.Then].Backends; len(got) != 1 || got[0].String() != "10.42.0.2:8080" {
		t.Errorf("from outside: %v", got)
	}
	if got := p.Chains[second.Inside].Backends; len(got) != 2 {
		t.Errorf("from inside: %v", got)
	}
}
