package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func profileWith(t *testing.T, a Args) *profile {
	t.Helper()
	p, err := newProfile(Profile{Args: a})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAddedAffinity(t *testing.T) {
	inZone := func(zone string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}
	}
	required := profileWith(t, Args{AddedAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{inZone("1")}}}})
	preferred := profileWith(t, Args{AddedAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
		{Weight: 10, Preference: inZone("2")}}}})
	for seed := range uint64(10) {
		pl := newPlacement(zones(), seed)
		if n := pl.choose(newPodInfoOf(makePod("p"), required)); n == nil || n.node.Labels["zone"] != "1" {
			t.Errorf("seed %d: required, it is on %+v", seed, n)
		}
		if n := pl.choose(newPodInfoOf(makePod("p"), preferred)); n == nil || n.name != "c" {
			t.Errorf("seed %d: preferred, it is on %+v", seed, n)
		}
		p := newPodInfoOf(makePod("p", selectNodes(map[string]string{"zone": "2"})), required)
		if n := pl.choose(p); n != nil {
			t.Errorf("seed %d: against its own selector it is on %s", seed, n.name)
		}
		d := pl.diagnose(p)
		if got := d.Refused["c"]; len(got) != 1 || got[0] != reasonEnforced {
			t.Errorf("c refuses by %q", got)
		}
		if got := d.Refused["a"]; len(got) != 1 || got[0] != reasonAffinity {
			t.Errorf("a refuses by %q", got)
		}
	}
	without, err := newProfile(Profile{Disabled: []string{nodeAffinity}, Args: required.Profile.Args})
	if err != nil {
		t.Fatal(err)
	}
	c := zones()
	for _, n := range c.list {
		if !fits(newPodInfoOf(makePod("p"), without), n) {
			t.Errorf("without NodeAffinity %s refuses", n.name)
		}
	}
}

// What pods that are there want near counts by the weight of the profile that
// places the new one.
func TestWeightOfRequiredAffinity(t *testing.T) {
	web := labeled("app", "web")
	zone := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selects("app", "web")}
	c := zones()
	c.confirm(newPodInfo(makePod("x", web, near(zone))).onNode(), "a")
	c.confirm(newPodInfo(makePod("y", web, nearRather(5, zone))).onNode(), "c")
	for _, test := range []struct {
		name string
		args Args
		pod  *corev1.Pod
		a, c int64 // attraction
	}{
		{"by default", Args{}, makePod("p", web), 1, 5},
		{"more", Args{HardPodAffinityWeight: new(int32(7))}, makePod("p", web), 7, 5},
		{"none", Args{HardPodAffinityWeight: new(int32(0))}, makePod("p", web), 0, 5},
		{"ignored", Args{IgnorePreferredTermsOfExistingPods: true}, makePod("p", web), 0, 0},
		{"ignored, but it has preferences", Args{IgnorePreferredTermsOfExistingPods: true}, makePod("p", web, nearRather(2, zone)), 3, 7},
	} {
		d := c.domainsFor(newPodInfoOf(test.pod, profileWith(t, test.args)))
		if d == nil {
			d = &domains{}
		}
		if a, other := d.attraction(c.nodes["a"]), d.attraction(c.nodes["c"]); a != test.a || other != test.c {
			t.Errorf("%s: a %d, c %d, want %d and %d", test.name, a, other, test.a, test.c)
		}
	}
}

func nearRather(weight int32, term corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: term}}}}
	}
}

func TestIgnoredResources(t *testing.T) {
	c := makeCluster(makeNode("n"))
	for _, test := range []struct {
		name string
		args Args
		pod  *corev1.Pod
		fits bool
	}{
		{"none", Args{}, makePod("p", requests("example.com/gpu", "1")), false},
		{"by name", Args{IgnoredResources: []string{"example.com/gpu"}}, makePod("p", requests("example.com/gpu", "1")), true},
		{"by group", Args{IgnoredResourceGroups: []string{"example.com"}}, makePod("p", requests("example.com/gpu", "1")), true},
		{"another", Args{IgnoredResources: []string{"example.com/tpu"}, IgnoredResourceGroups: []string{"example.org"}}, makePod("p", requests("example.com/gpu", "1")), false},
		{"never what is no extended resource", Args{IgnoredResources: []string{"cpu", "hugepages-2Mi"}}, makePod("p", requests("hugepages-2Mi", "2Mi")), false},
	} {
		p := newPodInfoOf(test.pod, profileWith(t, test.args))
		if got := fits(p, c.list[0]); got != test.fits {
			t.Errorf("%s: fits %t", test.name, got)
		}
		if got := len(shortOf(p, c.list[0])) == 0; got != test.fits {
			t.Errorf("%s: short of %q", test.name, shortOf(p, c.list[0]))
		}
	}
}

// Scores are of 100,000. The node has 4 CPUs, 8Gi, 100Gi of storage and 4 GPUs;
// with the pod 1, 4Gi, 10Gi and 2 are used.
func TestScoredResources(t *testing.T) {
	n := makeCluster(makeNode("n", allocatable("example.com/gpu", "4"))).list[0]
	all := makePod("p", requests("cpu", "1", "memory", "4Gi", "ephemeral-storage", "10Gi", "example.com/gpu", "2"))
	few := makePod("p", requests("cpu", "1", "memory", "4Gi"))
	for _, test := range []struct {
		name      string
		args      Args
		pod       *corev1.Pod
		fit, even int64
	}{
		{"by default", Args{}, all, (75_000 + 50_000) / 2, 100_000 - 12_500},
		{"CPU alone", Args{Resources: []ResourceWeight{{"cpu", 1}}}, all, 75_000, 100_000 - 12_500},
		{"weighted", Args{Resources: []ResourceWeight{{"cpu", 3}, {"memory", 1}}}, all, (3*75_000 + 50_000) / 4, 100_000 - 12_500},
		{"scarce", Args{Resources: []ResourceWeight{{"example.com/gpu", 2}, {"memory", 1}}}, all, 50_000, 100_000 - 12_500},
		{"scarce, not asked for", Args{Resources: []ResourceWeight{{"example.com/gpu", 2}, {"cpu", 1}}}, few, 75_000, 100_000 - 12_500},
		{"not there", Args{Resources: []ResourceWeight{{"example.com/tpu", 2}}}, all, 0, 100_000 - 12_500},
		{"storage", Args{Resources: []ResourceWeight{{"ephemeral-storage", 1}}, BalancedResources: []corev1.ResourceName{"cpu", "ephemeral-storage"}}, all, 90_000, 100_000 - 7_500},
		{"like the default", Args{Resources: []ResourceWeight{{"cpu", 1}, {"memory", 1}}, BalancedResources: []corev1.ResourceName{"cpu", "memory"}}, all, 62_500, 100_000 - 12_500},
		{"balanced by nothing", Args{BalancedResources: []corev1.ResourceName{"example.com/tpu"}}, all, 62_500, 100_000},
	} {
		of := profileWith(t, test.args)
		p := newPodInfoOf(test.pod, of)
		of.fitWeight, of.evenWeight = 1, 0
		if got := resourceScore(p, n); got != test.fit {
			t.Errorf("%s: %d, want %d", test.name, got, test.fit)
		}
		of.fitWeight, of.evenWeight = 0, 1
		if got := resourceScore(p, n); got != test.even {
			t.Errorf("%s: balanced %d, want %d", test.name, got, test.even)
		}
	}
}

// A resource by which the shape gives a node nothing does not count in its score.
func TestShapeLeavesOutWhatIsWorthNothing(t *testing.T) {
	shape := []ShapePoint{{0, 0}, {50, 0}, {100, 10}}
	for _, test := range []struct {
		resources   []ResourceWeight // nil: by default
		cpu, memory string           // that the pod wants; of 4 and 8Gi
		want        int64            // of 100
	}{
		{nil, "3", "6Gi", 50},
		{nil, "3", "1Gi", 50}, // memory is worth nothing
		{nil, "1", "6Gi", 50},
		{nil, "1", "1Gi", 0},
		{nil, "4", "6Gi", 75},
		{[]ResourceWeight{{"cpu", 3}, {"memory", 1}}, "4", "6Gi", 87}, // (3*100 + 50) / 4
		{[]ResourceWeight{{"cpu", 1}, {"memory", 3}}, "4", "1Gi", 100},
		{[]ResourceWeight{{"cpu", 1}, {"example.com/gpu", 100}}, "3", "1Gi", 50}, // which the pod does not want
	} {
		p, err := newProfile(Profile{Strategy: "RequestedToCapacityRatio", Shape: shape, Args: Args{Resources: test.resources}, Weights: map[string]int64{balanced: 0}})
		if err != nil {
			t.Fatal(err)
		}
		c := makeCluster(makeNode("a"))
		got := resourceScore(newPodInfoOf(makePod("p", requests("cpu", test.cpu, "memory", test.memory)), p), c.list[0])
		if got*100/maxScore != test.want {
			t.Errorf("%v, %s, %s: %d, want %d", test.resources, test.cpu, test.memory, got*100/maxScore, test.want)
		}
	}
	least, err := newProfile(Profile{Weights: map[string]int64{balanced: 0}}) // where 0 counts
	if err != nil {
		t.Fatal(err)
	}
	c := makeCluster(makeNode("a"))
	if got := resourceScore(newPodInfoOf(makePod("p", requests("cpu", "4", "memory", "4Gi")), least), c.list[0]); got != maxScore/4 {
		t.Errorf("LeastAllocated gives %d, want %d", got, maxScore/4)
	}
}

// As many nodes are looked at to make room as the profile asks for.
func TestCandidatesForPreemption(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 200 {
		nodes = append(nodes, makeNode("n"+string(rune('a'+i/26))+string(rune('a'+i%26))))
	}
	c := makeCluster(nodes...)
	for _, n := range nodes {
		c.confirm(newPodInfo(makePod("on-"+n.Name, requests("cpu", "4"))).onNode(), n.Name)
	}
	for _, test := range []struct {
		percentage, absolute *int32
		want                 int
	}{
		{nil, nil, 100},
		{new(int32(60)), nil, 120},
		{new(int32(0)), new(int32(1)), 1},
		{new(int32(5)), new(int32(0)), 10},
		{nil, new(int32(300)), 200},
	} {
		of := profileWith(t, Args{MinCandidateNodesPercentage: test.percentage, MinCandidateNodesAbsolute: test.absolute})
		pl, p := newPlacement(c, 1), newPodInfoOf(makePod("p", requests("cpu", "4"), priority(9)), of)
		if n := pl.choose(p); n != nil {
			t.Fatalf("it fits on %s", n.name)
		}
		if list, why := pl.evictions(p, nil); len(list) != test.want {
			t.Errorf("%d nodes, %s; want %d", len(list), why, test.want)
		}
	}
}
