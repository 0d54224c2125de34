package loadbalancer

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFamilies: a service has addresses of its families, as far as there are any;
// it waits when it has none, or requires both.
func TestFamilies(t *testing.T) {
	prefer, require := corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	const both, v4, v6 = "192.0.2.8/30,2001:db8:1::/126", "192.0.2.8/30", "2001:db8:1::/126"
	for _, test := range []struct {
		name, pool, families string
		policy               *corev1.IPFamilyPolicy
		ask, had, want       string
	}{
		{"single", both, "4", nil, "", "", "192.0.2.8"},
		{"single, the other", both, "6", nil, "", "", "2001:db8:1::"},
		{"of before there were families", both, "", nil, "", "", "192.0.2.8"},
		{"both", both, "46", &prefer, "", "", "192.0.2.8 2001:db8:1::"},
		{"in their order", both, "64", &require, "", "", "2001:db8:1:: 192.0.2.8"},
		{"keeps them", both, "46", &require, "", "2001:db8:1::2 192.0.2.9", "192.0.2.9 2001:db8:1::2"},
		{"gives one up", both, "4", nil, "", "192.0.2.9 2001:db8:1::2", "192.0.2.9"},
		{"what is taken", both, "46", &prefer, "", "192.0.2.10 2001:db8:1::3", "192.0.2.8 2001:db8:1::"},
		{"asked for one", both, "46", &prefer, "2001:db8:1::2", "", "192.0.2.8 2001:db8:1::2"},
		{"asked for what it has no family for", both, "4", nil, "2001:db8:1::2", "", "- address 2001:db8:1::2"},
		{"asked for nonsense", both, "46", &prefer, "x", "", "2001:db8:1::"},
		{"no pool of the second, preferred", v4, "46", &prefer, "", "", "192.0.2.8"},
		{"no pool of the first, preferred", v4, "64", &prefer, "", "", "192.0.2.8"},
		{"no pool of the second, required", v4, "46", &require, "", "", "192.0.2.8 - load balancer pool: it has no address of IPv6"},
		{"no pool of the only one", v6, "4", nil, "", "", "- load balancer pool: it has no address of IPv4"},
		{"nodes, single", "nodes", "4", nil, "", "", "198.51.100.1 198.51.100.2"},
		{"nodes, both", "nodes", "46", &prefer, "", "", "198.51.100.1 198.51.100.2 2001:db8::1"},
		{"nodes, the other first", "nodes", "64", &require, "", "", "2001:db8::1 198.51.100.1 198.51.100.2"},
	} {
		pool, err := ParsePool(test.pool)
		if err != nil {
			t.Fatal(err)
		}
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{IPFamilyPolicy: test.policy, LoadBalancerIP: test.ask}}
		for _, f := range test.families {
			svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, corev1.IPFamily("IPv"+string(f)))
		}
		for _, ip := range strings.Fields(test.had) {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		node := func(ips ...string) *corev1.Node {
			n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
			for _, ip := range ips {
				n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
			}
			return n
		}
		w := world{service: svc, pool: pool, nodes: []*corev1.Node{node("198.51.100.1", "2001:db8::1"), node("198.51.100.2")},
			rivals: func(int32) []*corev1.Service { return nil },
			at: func(ip netip.Addr) []*corev1.Service {
				if s := ip.String(); s == "192.0.2.10" || s == "2001:db8:1::3" {
					return []*corev1.Service{{}}
				}
				return nil
			}}
		list, p := addressesOf(w)
		got := strings.Trim(fmt.Sprint(list), "[]")
		if p != nil {
			got = strings.TrimSpace(got + " - " + p.on + ": " + p.reason)
		}
		if got != test.want && !(p != nil && strings.HasPrefix(got, test.want+": ")) {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// TestRivalsOfAnotherFamily: two services may have one port at addresses of
// different families of a node.
func TestRivalsOfAnotherFamily(t *testing.T) {
	port := []corev1.ServicePort{{Port: 80}}
	six := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "six"}, Spec: corev1.ServiceSpec{Ports: port, IPFamilies: []corev1.IPFamily{"IPv6"}}}
	w := world{service: &corev1.Service{Spec: corev1.ServiceSpec{Ports: port}}, rivals: func(int32) []*corev1.Service { return []*corev1.Service{six} }}
	if c := conflict(w, netip.MustParseAddr("192.0.2.1")); c != nil {
		t.Errorf("at IPv4: %v", c)
	}
	if c := conflict(w, netip.MustParseAddr("2001:db8::1")); c == nil {
		t.Error("at IPv6: no conflict")
	}
}
