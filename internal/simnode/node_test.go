package simnode

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/loop"
)

func TestNodeStatus(t *testing.T) {
	opts := Options{Count: 3, Labels: map[string]string{"zone": "a"}}
	if err := opts.Validate(); err != nil {
		t.Fatal(err)
	}
	s := &Nodes{opts: opts, amounts: opts.amounts(), addresses: newPlaces(netip.MustParsePrefix(opts.Addresses))}
	node := s.newNode(2, nil, now)
	if node.Name != "sim-2" || node.Labels["zone"] != "a" || node.Status.Addresses[0].Address != "198.18.0.3" {
		t.Errorf("node %+v", node)
	}
	// What posted says must be what nodeStatus would do.
	for i, change := range []func(*corev1.Node){
		func(*corev1.Node) {},
		func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown },
		func(n *corev1.Node) { n.Status.Conditions[3].Status = corev1.ConditionFalse },
		func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[1:] },
		func(n *corev1.Node) { delete(n.Status.Allocatable, corev1.ResourcePods) },
		func(n *corev1.Node) { n.Status.Capacity[corev1.ResourceCPU] = n.Status.Capacity[corev1.ResourcePods] },
		func(n *corev1.Node) { n.Status.Addresses = nil },
	} {
		n := node.DeepCopy()
		change(n)
		if got := nodeStatus(n, s.newNode(2, nil, now), now); s.posted(n, now) != (got == nil) {
			t.Errorf("node %d: posted differs from nodeStatus: %+v", i, got)
		}
	}
	for _, cidrs := range [][]string{nil, {"10.1.2.0/24"}, {"fd00:1::/64"}, {"10.1.2.0/24", "fd00:1::/64"}, {"fd00:1::/64", "10.1.2.0/24"}} {
		for _, had := range [][]string{nil, cidrs} {
			n := s.newNode(2, had, now)
			n.Spec.PodCIDRs = cidrs
			if got := nodeStatus(n, s.newNode(2, cidrs, now), now); s.posted(n, now) != (got == nil) {
				t.Errorf("addresses for %v, ranges %v: posted %t, and nodeStatus has %v", had, cidrs, got != nil, got)
			}
		}
	}
	at := func(d time.Duration) *corev1.Node { return s.newNode(2, nil, now.Add(d)) }
	if got := nodeStatus(node, at(statusEvery-1), now.Add(statusEvery-1)); got != nil {
		t.Errorf("too early: %+v", got.Status)
	}
	got := nodeStatus(node, at(statusEvery), now.Add(statusEvery))
	if got == nil {
		t.Fatal("no heartbeat when it is due")
	}
	for _, c := range got.Status.Conditions {
		if !c.LastHeartbeatTime.Time.Equal(now.Add(statusEvery)) || !c.LastTransitionTime.Time.Equal(now) {
			t.Errorf("condition %+v", c)
		}
	}
	unknown := node.DeepCopy()
	unknown.Status.Conditions[3].Status, unknown.Status.Conditions[3].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	if got := nodeStatus(unknown, at(time.Second), now.Add(time.Second)); got == nil || readyStatus(got) != corev1.ConditionTrue {
		t.Error("a node that was given up does not say that it is back")
	}
	small := node.DeepCopy()
	small.Status.Allocatable = nil
	if got := nodeStatus(small, at(time.Second), now.Add(time.Second)); got == nil || got.Status.Allocatable.Pods().Value() != 110 {
		t.Error("what the node has is not kept up to date")
	}
}

func TestOptions(t *testing.T) {
	for _, opts := range []Options{{CPU: "many"}, {Memory: "1Q!"}, {Addresses: "here"}} {
		if err := opts.Validate(); err == nil {
			t.Errorf("%+v passed", opts)
		}
	}
}

// TestFamilies: nodes and pods have addresses of the families of the node's
// ranges, in their order, and a pod keeps those that it has.
func TestFamilies(t *testing.T) {
	for _, test := range []struct{ cidrs, had, host, pod string }{
		{"", "", "198.18.0.3", "198.19.0.2"},
		{"10.1.2.0/24", "", "198.18.0.3", "10.1.2.2"},
		{"fd00:1::/64", "", "2001:2::3", "fd00:1::2"},
		{"10.1.2.0/24,fd00:1::/64", "", "198.18.0.3,2001:2::3", "10.1.2.2,fd00:1::2"},
		{"fd00:1::/64,10.1.2.0/24", "fd00:1::9,10.1.2.7", "2001:2::3,198.18.0.3", "fd00:1::9,10.1.2.7"},
		{"10.1.2.0/24,fd00:1::/64", "10.1.2.7", "198.18.0.3,2001:2::3", "10.1.2.7,fd00:1::2"},
		{"10.1.2.0/24,fd00:1::/127", "", "198.18.0.3,2001:2::3", "fd00:1::/127 is full"},
	} {
		split := func(text string) []string { return strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) }
		p := newPlaces(netip.MustParsePrefix("198.18.0.0/15"))
		if got := strings.Join(p.ofNode(2, split(test.cidrs)), ","); got != test.host {
			t.Errorf("%s: the node has %s, want %s", test.cidrs, got, test.host)
		}
		ips, full := p.ofPod(loop.Key{Name: "a"}, split(test.cidrs), podIPs(split(test.had)))
		got := strings.Join(ips, ",")
		if full != "" {
			got = full + " is full"
		}
		if got != test.pod {
			t.Errorf("%s: the pod has %s, want %s", test.cidrs, got, test.pod)
		}
		p.release(loop.Key{Name: "a"})
		if left := len(p.ipv4.taken) + len(p.ipv6.taken); left > 0 {
			t.Errorf("%s: %d addresses are not given back", test.cidrs, left)
		}
	}
}

func TestAddresses(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("198.18.0.0/15"))
	if got := a.ofNode(0); got != "198.18.0.1" {
		t.Errorf("node 0 has %s", got)
	}
	if got := a.ofNode(4999); got != "198.18.19.136" {
		t.Errorf("node 4999 has %s", got)
	}
	key := func(i int) loop.Key { return loop.Key{Name: fmt.Sprint(i)} }
	expect := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect(a.ofPod(key(0), "", ""), "198.19.0.2")
	expect(a.ofPod(key(1), "10.1.2.0/29", ""), "10.1.2.2")
	expect(a.ofPod(key(1), "10.1.2.0/29", ""), "10.1.2.2") // keeps it
	expect(a.ofPod(key(2), "10.1.2.0/29", "10.1.2.3"), "10.1.2.3")
	for i := 3; i <= 5; i++ {
		expect(a.ofPod(key(i), "10.1.2.0/29", ""), fmt.Sprint("10.1.2.", i+1))
	}
	expect(a.ofPod(key(6), "10.1.2.0/29", ""), "")
	a.release(key(2))
	expect(a.ofPod(key(6), "10.1.2.0/29", ""), "10.1.2.3")
	expect(a.ofPod(key(7), "fd00::/125", ""), "fd00::2")
}
