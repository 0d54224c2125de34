package nodeipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/controllers"
)

func prefixes(list string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range strings.Fields(list) {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func bySim(node *corev1.Node) bool { return strings.HasPrefix(node.Name, "sim") }

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		name     string
		cluster  string
		nodes    string // "name", "name=range[,range]"; the first is the oldest; "sim..." are simulated
		kept     string
		promised string // "name=range[,range]"
		want     string
		left     int
	}{
		{name: "none", cluster: "10.42.0.0/16"},
		{name: "the oldest first", cluster: "10.42.0.0/16", nodes: "z a m", want: "z=10.42.0.0/24 a=10.42.1.0/24 m=10.42.2.0/24"},
		{name: "fills the gap", cluster: "10.42.0.0/16", nodes: "a=10.42.0.0/24 b c=10.42.2.0/24 d", want: "b=10.42.1.0/24 d=10.42.3.0/24"},
		{name: "others' ranges", cluster: "10.42.0.0/16", nodes: "a=10.43.0.0/24 b=nonsense c", want: "c=10.42.0.0/24"},
		{name: "a larger range", cluster: "10.42.0.0/16", nodes: "a=10.42.0.0/22 b", want: "b=10.42.4.0/24"},
		{name: "a range within ours", cluster: "10.42.0.0/16", nodes: "a=10.42.0.128/25 b", want: "b=10.42.1.0/24"},
		{name: "larger than the cluster", cluster: "10.42.0.0/16", nodes: "a=10.0.0.0/8 b", left: 1},
		{name: "used up", cluster: "10.42.0.0/23", nodes: "a b c d", want: "a=10.42.0.0/24 b=10.42.1.0/24", left: 2},
		{name: "simulated nodes keep some back", cluster: "10.42.0.0/21", nodes: "sim0 sim1 sim2 sim3 sim4 sim5 sim6 sim7 sim8",
			want: "sim0=10.42.0.0/24 sim1=10.42.1.0/24 sim2=10.42.2.0/24 sim3=10.42.3.0/24 sim4=10.42.4.0/24 sim5=10.42.5.0/24 sim6=10.42.6.0/24"},
		{name: "others to the last range", cluster: "10.42.0.0/21", nodes: "sim0=10.42.0.0/22 sim1=10.42.4.0/23 sim2 a sim3 b", want: "sim2=10.42.6.0/24 a=10.42.7.0/24", left: 1},
		{name: "simulated nodes do without", cluster: "10.42.0.0/21", nodes: "sim0 a=10.42.0.0/22 b=10.42.4.0/23 c=10.42.6.0/24"},
		{name: "dual stack", cluster: "10.42.0.0/16 fd00:1::/48", nodes: "a=10.42.0.0/24,fd00:1::/64 b", want: "b=10.42.1.0/24,fd00:1:0:1::/64"},
		{name: "one family from before", cluster: "10.42.0.0/16 fd00:1::/48", nodes: "a=10.42.0.0/24 b", want: "b=10.42.1.0/24,fd00:1::/64"},
		{name: "IPv6 first", cluster: "fd00:1::/48 10.42.0.0/16", nodes: "a b=fd00:1::/64,10.42.0.0/24", want: "a=fd00:1:0:1::/64,10.42.1.0/24"},
		{name: "one family is used up", cluster: "10.42.0.0/24 fd00:1::/48", nodes: "a b", want: "a=10.42.0.0/24,fd00:1::/64", left: 1},
		{name: "what is promised is kept, and free to nobody", cluster: "10.42.0.0/16", nodes: "a b c", promised: "b=10.42.0.0/24", want: "b=10.42.0.0/24 a=10.42.1.0/24 c=10.42.2.0/24"},
		{name: "promised to who is gone or has it", cluster: "10.42.0.0/16", nodes: "a=10.42.1.0/24 b", promised: "x=10.42.0.0/24 a=10.42.1.0/24", want: "b=10.42.0.0/24"},
		{name: "the last is promised", cluster: "10.42.0.0/24", nodes: "a b", promised: "b=10.42.0.0/24", want: "b=10.42.0.0/24", left: 1},
		{name: "rubbish is promised", cluster: "10.42.0.0/16", nodes: "a b c d e f", promised: "a=rubbish b= c=10.42.0.0/23 d=10.42.0.7/24 e=10.99.0.0/24 f=10.42.0.0/24,10.42.1.0/24",
			want: "a=10.42.0.0/24 b=10.42.1.0/24 c=10.42.2.0/24 d=10.42.3.0/24 e=10.42.4.0/24 f=10.42.5.0/24"},
		{name: "one range is promised twice", cluster: "10.42.0.0/16", nodes: "a b", promised: "a=10.42.7.0/24 b=10.42.7.0/24", want: "a=10.42.7.0/24 b=10.42.0.0/24"},
		{name: "what another has is promised", cluster: "10.42.0.0/16", nodes: "a=10.42.7.0/24 b", promised: "b=10.42.7.0/24", want: "b=10.42.0.0/24"},
		{name: "a part of what another has is promised", cluster: "10.42.0.0/16", nodes: "a=10.42.0.0/20 b", promised: "b=10.42.7.0/24", want: "b=10.42.16.0/24"},
		{name: "what is kept is promised", cluster: "10.42.0.0/16", kept: "10.42.7.0/24", nodes: "b", promised: "b=10.42.7.0/24", want: "b=10.42.0.0/24"},
		{name: "promised before the second family", cluster: "10.42.0.0/16 fd00:1::/48", nodes: "a b", promised: "b=10.42.7.0/24", want: "b=10.42.7.0/24 a=10.42.0.0/24,fd00:1::/64"},
		{name: "both are promised", cluster: "10.42.0.0/16 fd00:1::/48", nodes: "b", promised: "b=10.42.7.0/24,fd00:1:0:9::/64", want: "b=10.42.7.0/24,fd00:1:0:9::/64"},
		{name: "kept for who takes it", cluster: "10.42.0.0/16 fd00:1::/48", kept: "10.42.0.0/24 fd00:1:0:1::/64", nodes: "a b", want: "a=10.42.1.0/24,fd00:1::/64 b=10.42.2.0/24,fd00:1:0:2::/64"},
		{name: "who takes it has it", cluster: "10.42.0.0/23", kept: "10.42.0.0/24", nodes: "a=10.42.0.0/24 b", want: "b=10.42.1.0/24"},
		{name: "small for IPv6 is large", cluster: "fd00::/32", nodes: "a b", want: "a=fd00::/64 b=fd00:0:0:1::/64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var nodes []*corev1.Node
			for i, s := range strings.Fields(test.nodes) {
				name, cidrs, ok := strings.Cut(s, "=")
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(int64(i), 0)}}
				if ok {
					node.Spec.PodCIDRs = strings.Split(cidrs, ",")
					node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
				}
				nodes = append(nodes, node)
			}
			promised := promises{}
			for _, s := range strings.Fields(test.promised) {
				name, cidrs, _ := strings.Cut(s, "=")
				promised[types.UID(name)] = strings.Split(cidrs, ",")
			}
			slices.Reverse(nodes) // the order they come in is none
			given, left := plan(nodes, promised, Config{Cluster: prefixes(test.cluster), Kept: prefixes(test.kept), Simulated: bySim})
			var got []string
			for _, n := range given {
				got = append(got, n.Name+"="+strings.Join(n.Spec.PodCIDRs, ","))
				if n.Spec.PodCIDR != n.Spec.PodCIDRs[0] {
					t.Errorf("%s: podCIDR %s", n.Name, n.Spec.PodCIDR)
				}
			}
			if s := strings.Join(got, " "); s != test.want || len(left) != test.left {
				t.Errorf("got  %s, %d left\nwant %s, %d left", s, len(left), test.want, test.left)
			}
		})
	}
}

func TestPlanOfThousands(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 5000 {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0))}})
	}
	for i := range 5 { // as many as fit into an object at a time
		given, left := plan(nodes, nil, Config{Cluster: prefixes("10.0.0.0/8"), Simulated: bySim})
		last := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte((i*1000 + 999) >> 8), byte(i*1000 + 999)}), 24)
		if len(given) != 1000 || len(left) != 0 || given[999].Spec.PodCIDR != last.String() {
			t.Errorf("%d given, %d left, the last %s, want %s", len(given), len(left), given[len(given)-1].Spec.PodCIDR, last)
		}
		copy(nodes[i*1000:], given)
	}
}

func TestRefusesBadRanges(t *testing.T) {
	for _, bad := range []string{"", "10.42.0.1/16", "10.42.0.0/25", "fd00::/65", "10.0.0.0/16 10.1.0.0/16", "10.0.0.0/16 fd00::/48 fd01::/48"} {
		if _, err := New(controllers.Options{}, Config{Cluster: prefixes(bad)}); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}
