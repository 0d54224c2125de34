package endpointslice

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// locate makes endpoints e0, e1, ... of the zones that a word has a letter for.
func locate(zones string) (all []located) {
	for i, zone := range zones {
		all = append(all, located{types.UID(fmt.Sprint("e", i)), strings.TrimSpace(string(zone))})
	}
	return all
}

func TestSpread(t *testing.T) {
	for _, row := range []struct {
		what, zones string
		weights     weights
		want        string // the zones that they are meant for, or why none
	}{
		{"each zone its own", "aaabbb", weights{"a": 4000, "b": 4000}, "aaabbb"},
		{"in proportion to CPUs", "aaaaaabbb", weights{"a": 8000, "b": 4000}, "aaaaaabbb"},
		{"a little too much is let be", "aaaabbb", weights{"a": 4000, "b": 4000}, "aaaabbb"},
		{"the youngest go where there are too few", "aaaaaabb", weights{"a": 4000, "b": 4000}, "aaaabbbb"},
		{"as many as are needed", "aaaaaaaaab", weights{"a": 4000, "b": 4000}, "aaaaabbbbb"},
		{"from the zone with the most", "aaaaaabbbbbc", weights{"a": 1000, "b": 1000, "c": 1000}, "aaaaccbbbbcc"},
		{"too much for one", "aab", weights{"a": 4000, "b": 4000}, "Insufficient number of endpoints (3), impossible to safely allocate proportionally"},
		{"fewer than zones", "ab", weights{"a": 1, "b": 1, "c": 1}, "Insufficient number of endpoints (2), fewer than zones (3)"},
		{"one without a zone", "aa bb", weights{"a": 1000, "b": 1000}, "Insufficient number of endpoints (5), impossible to safely allocate proportionally"},
		{"one without a zone, and enough", "aaabb b", weights{"a": 1000, "b": 2500}, "One or more endpoints do not have a zone specified"},
		{"a zone whose nodes are lost", "aaabbbcc", weights{"a": 1000, "b": 1000}, "aaabbbba"},
	} {
		all := locate(row.zones)
		meant, why := spread(all, row.weights)
		got := why
		for _, ep := range all {
			got += meant[ep.uid]
		}
		if got != row.want {
			t.Errorf("%s: %s by %v is %q, want %q", row.what, row.zones, row.weights, got, row.want)
		}
	}
}

// Whatever there is: all are meant for a zone that has weight, none of which
// is asked to do a fifth more than the average; and endpoints leave their zone
// only for one that has too few.
func TestSpreadIsFair(t *testing.T) {
	spreads := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := weights{}
		for i := range 2 + r.IntN(3) {
			w[string(rune('a'+i))] = 1000 * (1 + r.Int64N(16))
		}
		word := ""
		for range r.IntN(40) {
			word += string(rune('a' + r.IntN(len(w)+r.IntN(2))))
		}
		all := locate(word)
		meant, why := spread(all, w)
		if why != "" {
			if meant != nil {
				t.Fatalf("seed %d: %v although %s", seed, meant, why)
			}
			continue
		}
		spreads++
		count, own := map[string]int{}, map[string]int{}
		for _, ep := range all {
			count[meant[ep.uid]]++
			own[ep.zone]++
		}
		if len(meant) != len(all) || len(count) != len(w) {
			t.Fatalf("seed %d: %s by %v is meant for %v", seed, word, w, count)
		}
		for zone, n := range count {
			share := float64(len(all)) * float64(w[zone]) / float64(w.total())
			if float64(n)*(1+overload) < share-1e-9 {
				t.Errorf("seed %d: %s by %v: %d for %s, whose share is %.2f", seed, word, w, n, zone, share)
			}
			if away := own[zone] - n; away > 0 && own[zone] < int(share) {
				t.Errorf("seed %d: %s by %v: %s lost %d of %d, with a share of %.2f", seed, word, w, zone, away, own[zone], share)
			}
		}
		again, _ := spread(all, w)
		if !maps.Equal(meant, again) {
			t.Errorf("seed %d: %v, then %v", seed, meant, again)
		}
	}
	if spreads < 500 {
		t.Errorf("only %d could be spread", spreads)
	}
}

func makeNode(name, zone, cpu string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	if cpu != "" {
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, f := range change {
		f(n)
	}
	return n
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func control(n *corev1.Node)  { n.Labels["node-role.kubernetes.io/control-plane"] = "" }

func TestZones(t *testing.T) {
	const vague, one = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes", "Nodes only ready in one zone"
	var z zones
	expect := func(what string, changed, wantChanged bool, want string) {
		t.Helper()
		w, got := z.weigh()
		if got == "" {
			for _, zone := range w.names() {
				got += fmt.Sprintf("%s=%d ", zone, w[zone])
			}
		}
		if got = strings.TrimSpace(got); got != want || changed != wantChanged {
			t.Errorf("%s: %q, changed %t; want %q", what, got, changed, want)
		}
	}
	expect("no node", false, false, one)
	expect("one", z.put("1", makeNode("1", "a", "4")), true, one)
	expect("two", z.put("2", makeNode("2", "b", "2500m")), true, "a=4000 b=2500")
	expect("told twice", z.put("2", makeNode("2", "b", "2500m")), false, "a=4000 b=2500")
	expect("a third", z.put("3", makeNode("3", "b", "1")), true, "a=4000 b=3500")
	expect("larger", z.put("3", makeNode("3", "b", "2")), true, "a=4000 b=4500")
	expect("moved", z.put("3", makeNode("3", "c", "2")), true, "a=4000 b=2500 c=2000")
	expect("without a zone", z.put("4", makeNode("4", "", "2")), true, vague)
	expect("without CPU", z.put("4", makeNode("4", "a", "")), false, vague)
	expect("not ready", z.put("4", makeNode("4", "", "2", notReady)), true, "a=4000 b=2500 c=2000")
	expect("of the control plane", z.put("4", makeNode("4", "a", "2", control)), false, "a=4000 b=2500 c=2000")
	expect("silent", z.put("3", makeNode("3", "c", "2", notReady)), true, "a=4000 b=2500")
	expect("gone", z.put("2", nil), true, one)
	expect("gone again", z.put("2", nil), false, one)
}

// The annotation goes before trafficDistribution, the older annotation before
// the newer; what is not ready has no hint.
func TestTopologyMode(t *testing.T) {
	near := corev1.ServiceTrafficDistributionPreferSameNode
	for _, row := range []struct {
		mode, older string
		near        *string
		want        string
	}{
		{"", "", nil, "- - - - -"},
		{"Auto", "", nil, "b a a b -"},
		{"auto", "", nil, "b a a b -"},
		{"Disabled", "", nil, "- - - - -"},
		{"example.com/other", "", nil, "- - - - -"},
		{"", "Auto", nil, "b a a b -"},
		{"Auto", "Disabled", nil, "- - - - -"},
		{"Auto", "", &near, "b a a b -"},
		{"Disabled", "", &near, "zone-b/nb zone-a/na zone-a/na zone-a/na -"},
	} {
		service := makeService(func(s *corev1.Service) {
			s.Annotations, s.Spec.TrafficDistribution = map[string]string{}, row.near
			if row.mode != "" {
				s.Annotations[corev1.AnnotationTopologyMode] = row.mode
			}
			if row.older != "" {
				s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints] = row.older
			}
		})
		var pods []*corev1.Pod
		for i, node := range []string{"nb", "na", "na", "na", "nb"} {
			pods = append(pods, makePod(i, func(p *corev1.Pod) { p.Spec.NodeName = node }))
		}
		unready(pods[4])
		step, said := plan(world{service: service, pods: pods,
			zone:  func(node string) string { return "zone-" + strings.TrimPrefix(node, "n") },
			zones: func() (weights, string) { return weights{"zone-a": 1000, "zone-b": 1000}, "" },
			taken: func(string) bool { return false },
		})
		var got []string
		for _, ep := range step.Create.Endpoints {
			hint := "-"
			if ep.Hints != nil {
				hint = strings.TrimPrefix(ep.Hints.ForZones[0].Name, "zone-")
				for _, n := range ep.Hints.ForNodes {
					hint = ep.Hints.ForZones[0].Name + "/" + n.Name
				}
			}
			got = append(got, hint)
		}
		if text := strings.Join(got, " "); text != row.want || (said == enabled) != (row.want == "b a a b -") {
			t.Errorf("mode %q, older %q, distribution %v: %q, %q; want %q", row.mode, row.older, row.near != nil, text, said, row.want)
		}
	}
}
