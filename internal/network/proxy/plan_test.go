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
		"external address": {service(func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.1", "2001:db8::1"} }),
			[]*discoveryv1.EndpointSlice{slice(ready1)},
			leads{cluster: ports("10.42.0.2:8080"), front("192.0.2.1", unix.IPPROTO_TCP, 80): ports("10.42.0.2:8080")}},
	} {
		t.Run(name, func(t *testing.T) {
			p := PlanService(test.svc, test.slices, "n1")
			got := leads{}
			for f, chain := range p.Frontends {
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
	p := PlanPod(pod)
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
	if p := PlanPod(pod); len(p.Frontends) != 0 {
		t.Errorf("a finished pod holds host ports: %v", p.Frontends)
	}
}
