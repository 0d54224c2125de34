package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/networktest"
)

func pod(namespace, name, node, ip string, ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Ports: ports}}}, Status: corev1.PodStatus{PodIP: ip}}
}

func policyOf(t *testing.T, text string) *networkingv1.NetworkPolicy {
	t.Helper()
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(len(text))}}
	if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

// say writes the program down by pods' addresses: what each is let.
func say(p Program) string {
	var lines []string
	for dir, m := range map[string]map[netip.Addr]string{"in": p.Ingress, "out": p.Egress} {
		for ip, name := range m {
			var rules []string
			for _, r := range p.Chains[name].rules {
				text := "any"
				if !r.Any {
					text = ""
					for _, s := range r.Peers {
						if text += s.from.String(); s.to != s.from {
							text += "-" + s.to.String()
						}
						text += ","
					}
				}
				if r.Proto != 0 {
					text += fmt.Sprintf(" %d", r.Proto)
				}
				if r.To != 0 {
					text += fmt.Sprintf(":%d-%d", r.From, r.To)
				}
				for _, s := range r.Only {
					text += " to " + s.from.String()
				}
				rules = append(rules, text)
			}
			lines = append(lines, fmt.Sprintf("%s %s [%s]", ip, dir, strings.Join(rules, "; ")))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestPlan(t *testing.T) {
	http := corev1.ContainerPort{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}
	other := corev1.ContainerPort{Name: "http", ContainerPort: 9090, Protocol: corev1.ProtocolTCP}
	pods := []*corev1.Pod{pod("a", "web", "n1", "10.42.0.2", http), pod("a", "db", "n1", "10.42.0.3", other), pod("a", "far", "n2", "10.42.1.2", http), pod("b", "web", "n2", "10.42.1.3")}
	host := pod("a", "host", "n1", "192.0.2.1")
	host.Spec.HostNetwork = true
	ended := pod("a", "ended", "n1", "10.42.0.9")
	ended.Status.Phase = corev1.PodSucceeded
	pods = append(pods, host, ended, pod("a", "new", "n1", ""))
	namespaces := []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"team": "b"}}}}
	for name, c := range map[string]struct {
		policies []string
		want     string
	}{
		"deny all in":  {[]string{`{podSelector: {}, policyTypes: [Ingress]}`}, "10.42.0.2 in []\n10.42.0.3 in []"},
		"deny all out": {[]string{`{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress]}`}, "10.42.0.3 out []"},
		"let all in":   {[]string{`{podSelector: {}, ingress: [{}]}`}, "10.42.0.2 in [any]\n10.42.0.3 in [any]"},
		"without types, egress rules count": {[]string{`{podSelector: {matchLabels: {app: db}}, egress: [{}]}`},
			"10.42.0.3 in []\n10.42.0.3 out [any]"},
		"from pods of the namespace, at a port": {[]string{`{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [web, far]}]}}], ports: [{port: 5432}, {protocol: UDP, port: 53, endPort: 60}]}]}`},
			"10.42.0.3 in [10.42.0.2,10.42.1.2, 6:5432-5432; 10.42.0.2,10.42.1.2, 17:53-60]"},
		"from another namespace": {[]string{`{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}]}]}`},
			"10.42.0.3 in [10.42.1.3,]"},
		"from pods of another namespace": {[]string{`{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}]}]}`},
			"10.42.0.3 in [10.42.0.2,10.42.1.3,]"},
		"nobody is selected": {[]string{`{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: none}}}]}]}`},
			"10.42.0.3 in []"},
		"to a block but for a part": {[]string{`{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.0/30, 192.0.2.128/32]}}, {ipBlock: {cidr: "2001:db8::/32"}}]}]}`},
			"10.42.0.3 out [192.0.2.4-192.0.2.127,192.0.2.129-192.0.2.255,]"},
		"a port by name, in": {[]string{`{podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: http}]}]}`},
			"10.42.0.2 in [any 6:8080-8080 to 10.42.0.2; any 6:9090-9090 to 10.42.0.3]\n10.42.0.3 in [any 6:8080-8080 to 10.42.0.2; any 6:9090-9090 to 10.42.0.3]"},
		"a port by name, out": {[]string{`{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}], ports: [{port: http}]}]}`},
			"10.42.0.3 out [10.42.0.2-10.42.0.3,10.42.1.2, 6:8080-8080 to 10.42.0.2 to 10.42.1.2; 10.42.0.2-10.42.0.3,10.42.1.2, 6:9090-9090 to 10.42.0.3]"},
		"two policies add up": {[]string{`{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}`, `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{ports: [{port: 1}]}]}`},
			"10.42.0.3 in [any 6:1-1]"},
		"of another node's pods": {[]string{`{podSelector: {matchLabels: {app: far}}, policyTypes: [Ingress]}`}, ""},
	} {
		var policies []*networkingv1.NetworkPolicy
		for _, text := range c.policies {
			policies = append(policies, policyOf(t, text))
		}
		if got := say(Plan(network.IPv4, "n1", policies, pods, namespaces)); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
		// The same of IPv6 is the same; and what is said of the one family does
		// not touch the other, as pods here have addresses of one.
		var of6, pods6 = []*networkingv1.NetworkPolicy{}, []*corev1.Pod{}
		for _, text := range c.policies {
			of6 = append(of6, policyOf(t, strings.ReplaceAll(networktest.Text(network.IPv6, text), "2001:db8::/32", "198.51.100.0/24")))
		}
		for _, pod := range pods {
			pod6 := pod.DeepCopy()
			if pod.Status.PodIP != "" {
				pod6.Status.PodIP = networktest.Text(network.IPv6, pod.Status.PodIP)
			}
			pods6 = append(pods6, pod6)
		}
		// The last address of a block is not as long as its like of IPv4.
		want := strings.ReplaceAll(networktest.Text(network.IPv6, c.want), "fd00:192:0:2::255", "fd00:192:0:2:ffff:ffff:ffff:ffff")
		if got := say(Plan(network.IPv6, "n1", of6, pods6, namespaces)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if got := say(Plan(network.IPv4, "n1", of6, pods6, namespaces)); got != "" {
			t.Errorf("%s: of the other family\n%s", name, got)
		}
	}
}

// TestPlanBoth: a pod of both families is meant by both its addresses, a block
// by those of its own family alone.
func TestPlanBoth(t *testing.T) {
	both := func(name, ip string) *corev1.Pod {
		p := pod("a", name, "n1", ip)
		p.Status.PodIPs = []corev1.PodIP{{IP: ip}, {IP: networktest.Text(network.IPv6, ip)}}
		return p
	}
	pods := []*corev1.Pod{both("web", "10.42.0.2"), both("db", "10.42.0.3")}
	policies := []*networkingv1.NetworkPolicy{policyOf(t, `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: web}}}, {ipBlock: {cidr: "2001:db8::/32", except: ["2001:db8::/33"]}}]}]}`)}
	for f, want := range map[network.Family]string{
		network.IPv4: "10.42.0.3 in [10.42.0.2,]",
		network.IPv6: "fd00:10:42::3 in [2001:db8:8000::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff,fd00:10:42::2,]",
	} {
		if got := say(Plan(f, "n1", policies, pods, nil)); got != want {
			t.Errorf("%s: %s, want %s", f, got, want)
		}
	}
}

// TestSpans holds merging and cutting against a naive model.
func TestSpans(t *testing.T) {
	at := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}) }
	for seed := range 200 {
		var list, holes []span
		var has [64]bool
		x := seed*7919 + 17
		draw := func() span {
			x = (x*1103515245 + 12345) & 0x7fffffff
			from := x >> 8 % 50
			from %= 50
			return span{at(from), at(from + (x>>16)%12)}
		}
		for range 4 {
			list = append(list, draw())
		}
		holes = append(holes, draw(), draw())
		var cut []span
		for _, s := range list {
			cut = append(cut, s.without(holes)...)
		}
		for i := range has {
			in := func(s span) bool { return s.from.Compare(at(i)) <= 0 && at(i).Compare(s.to) <= 0 }
			has[i] = slices.ContainsFunc(list, in) && !slices.ContainsFunc(holes, in)
			if got := slices.ContainsFunc(merge(slices.Clone(cut)), in); got != has[i] {
				t.Fatalf("seed %d: %v without %v has %s: %t, want %t", seed, list, holes, at(i), got, has[i])
			}
		}
		merged := merge(cut)
		for i := 1; i < len(merged); i++ {
			if !merged[i-1].to.Next().Less(merged[i].from) {
				t.Fatalf("seed %d: %v touch", seed, merged)
			}
		}
	}
}
