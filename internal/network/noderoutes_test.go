package network

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

func nodeAt(name, pods, at string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if pods != "" {
		n.Spec.PodCIDRs = strings.Split(pods, " ")
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	}
	for _, ip := range strings.Fields(at) {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return n
}

// TestPlanRoutes: to each other node, in each family in which both its pods and
// itself have addresses.
func TestPlanRoutes(t *testing.T) {
	nodes := []*corev1.Node{
		nodeAt("self", "10.42.0.0/24 fd00:42::/64", "192.0.2.1 2001:db8::1"),
		nodeAt("both", "10.42.1.0/24 fd00:42:0:1::/64", "192.0.2.2 2001:db8::2"),
		nodeAt("other-order", "fd00:42:0:2::/64 10.42.2.0/24", "2001:db8::3 192.0.2.3"),
		nodeAt("pods-of-one", "10.42.3.0/24", "192.0.2.4 2001:db8::4"),
		nodeAt("itself-of-one", "10.42.4.0/24 fd00:42:0:4::/64", "192.0.2.5"),
		nodeAt("simulated", "10.42.5.0/24 fd00:42:0:5::/64", "10.42.5.1 fd00:42:0:5::1"),
		nodeAt("elsewhere", "10.99.6.0/24 fd00:99::/64", "192.0.2.6 2001:db8::6"),
		nodeAt("new", "", "192.0.2.7"),
	}
	for _, c := range []struct {
		config Config
		want   []string
	}{
		{dual, []string{"10.42.1.0/24 192.0.2.2", "10.42.2.0/24 192.0.2.3", "10.42.3.0/24 192.0.2.4", "10.42.4.0/24 192.0.2.5", "fd00:42:0:1::/64 2001:db8::2", "fd00:42:0:2::/64 2001:db8::3"}},
		{only4, []string{"10.42.1.0/24 192.0.2.2", "10.42.2.0/24 192.0.2.3", "10.42.3.0/24 192.0.2.4", "10.42.4.0/24 192.0.2.5"}},
		{only6, []string{"fd00:42:0:1::/64 2001:db8::2", "fd00:42:0:2::/64 2001:db8::3"}},
	} {
		var got []string
		for to, by := range planRoutes(nodes, "self", c.config.ClusterCIDRs) {
			got = append(got, fmt.Sprint(to, " ", by))
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("in %v: got %v, want %v", c.config.ClusterCIDRs, got, c.want)
		}
	}
}

// TestNodeRoutes: the routes of both families follow the nodes, are left alone
// while they are right, and go with the node or with the cluster.
func TestNodeRoutes(t *testing.T) {
	machine(t)
	wayOut(t, "192.0.2.1/24", "192.0.2.254", 4)
	wayOut(t, "2001:db8::1/64", "2001:db8::fe", 4)
	h := &Host{Config: dual}
	must(t, h.Up())
	c := apitest.New(t, apitest.Options{}).Client("tester")
	r := NewNodeRoutes(h, "self", c, slog.New(slog.DiscardHandler))
	look := func(want ...string) {
		t.Helper()
		must(t, r.nodes.WaitSynced(t.Context()))
		_, revision, err := c.List(t.Context(), client.Nodes, "", metav1.ListOptions{})
		must(t, err)
		must(t, r.nodes.WaitFor(t.Context(), revision))
		for range 2 {
			if _, err := r.reconcile(t.Context(), loop.Key{}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range families {
				routes, err := h.nodeRoutes(f)
				must(t, err)
				for _, route := range routes {
					got = append(got, fmt.Sprint(route.Dst, " ", route.Gw))
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("routes %v, want %v", got, want)
			}
		}
	}
	file := func(n *corev1.Node) {
		t.Helper()
		made, err := client.Create(t.Context(), c, client.Nodes, n)
		must(t, err)
		made = made.DeepCopy()
		made.Status = n.Status
		_, err = c.Update(t.Context(), client.Nodes, made, "status")
		must(t, err)
	}
	look()
	file(nodeAt("two", "10.42.1.0/24 fd00:42:0:1::/64", "192.0.2.2 2001:db8::2"))
	look("10.42.1.0/24 192.0.2.2", "fd00:42:0:1::/64 2001:db8::2")
	must(t, c.Delete(t.Context(), client.Nodes, "", "two", metav1.DeleteOptions{}))
	file(nodeAt("two", "fd00:42:0:1::/64 10.42.2.0/24", "2001:db8::3 192.0.2.2")) // at another place
	look("10.42.2.0/24 192.0.2.2", "fd00:42:0:1::/64 2001:db8::3")
	must(t, h.Down())
	for _, f := range families {
		if left, err := h.nodeRoutes(f); err != nil || len(left) > 0 {
			t.Errorf("left after Down: %v, %v", left, err)
		}
	}
}
