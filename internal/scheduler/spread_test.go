package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What a node has already need not be pulled; small images do not count.
func TestImageLocality(t *testing.T) {
	has := func(name string, size int64) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name}, SizeBytes: size})
		}
	}
	wants := func(image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }
	}
	for _, test := range []struct {
		name, image, held string
		size              int64
		want              bool // the node that has it is preferred
	}{
		{"large", "app:1", "app:1", 900 << 20, true},
		{"latest is meant", "registry:5000/app", "registry:5000/app:latest", 900 << 20, true},
		{"a digest", "app@sha256:0", "app@sha256:0", 900 << 20, true},
		{"another tag", "app:2", "app:1", 900 << 20, false},
		{"small", "app:1", "app:1", 1 << 20, false},
	} {
		c := makeCluster(makeNode("a", has(test.held, test.size)), makeNode("b"))
		p := newPodInfo(makePod("p", wants(test.image)))
		if got := c.imageScore(p, c.nodes["a"]); (got > 0) != test.want || got > maxScore {
			t.Errorf("%s: the score is %d", test.name, got)
		}
		if got := c.imageScore(p, c.nodes["b"]); got != 0 {
			t.Errorf("%s: without the image the score is %d", test.name, got)
		}
		// An image comes and goes with the status of the node, and with it.
		c.setNode(makeNode("a"))
		if len(c.images) != 0 {
			t.Errorf("%s: %v are left", test.name, c.images)
		}
		c.setNode(makeNode("a", has(test.held, test.size)))
		c.removeNode("a")
		if len(c.images) != 0 {
			t.Errorf("%s: %v are left", test.name, c.images)
		}
	}
}

func TestStrategies(t *testing.T) {
	for _, test := range []struct {
		profile Profile
		want    string
	}{
		{Profile{}, "b"},
		{Profile{Strategy: "MostAllocated"}, "a"},
		{Profile{Strategy: "RequestedToCapacityRatio", Shape: []ShapePoint{{0, 0}, {60, 10}, {100, 2}}}, "a"},
		{Profile{Strategy: "RequestedToCapacityRatio", Shape: []ShapePoint{{0, 10}, {100, 0}}}, "b"},
	} {
		of, err := newProfile(test.profile)
		if err != nil {
			t.Fatal(err)
		}
		c := makeCluster(makeNode("a"), makeNode("b"))
		c.confirm(newPodInfo(makePod("x", requests("cpu", "2", "memory", "4Gi"))).onNode(), "a")
		if n := newPlacement(c, 1).choose(newPodInfoOf(makePod("p", requests("cpu", "400m", "memory", "800Mi")), of)); n == nil || n.name != test.want {
			t.Errorf("%+v: got %v, want %s", test.profile, n, test.want)
		}
	}
	of, _ := newProfile(Profile{Strategy: "RequestedToCapacityRatio", Shape: []ShapePoint{{20, 0}, {60, 10}}})
	for share, want := range map[int64]int64{0: 0, 20: 0, 40: 50, 60: 100, 90: 100} {
		if got := of.usage(share * maxScore / 100); got != want*maxScore/100 {
			t.Errorf("at %d %% the score is %d, want %d %%", share, got, want)
		}
	}
}

// A disabled plugin neither filters nor scores.
func TestDisabled(t *testing.T) {
	web := labeled("app", "web")
	host := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: selects("app", "web")}
	for _, test := range []struct {
		plugin string
		node   *corev1.Node
		pod    *corev1.Pod
	}{
		{nodeUnschedulable, makeNode("a", cordon), makePod("p")},
		{taintToleration, makeNode("a", taint("k", "v", corev1.TaintEffectNoSchedule)), makePod("p")},
		{nodeAffinity, makeNode("a"), makePod("p", selectNodes(map[string]string{"disk": "ssd"}))},
		{nodePorts, makeNode("a"), makePod("p", ports(corev1.ContainerPort{HostPort: 80}))},
		{nodeResourcesFit, makeNode("a"), makePod("p", requests("cpu", "40"))},
		{interPodAffinity, makeNode("a"), makePod("p", apart(host))},
		{podTopologySpread, makeNode("a"), makePod("p", spread())},
	} {
		for _, off := range []bool{false, true} {
			profile := Profile{}
			if off {
				profile.Disabled = []string{test.plugin}
			}
			of, err := newProfile(profile)
			if err != nil {
				t.Fatal(err)
			}
			c := makeCluster(test.node)
			c.confirm(newPodInfo(makePod("x", web, ports(corev1.ContainerPort{HostPort: 80}))).onNode(), "a")
			if n := newPlacement(c, 1).choose(newPodInfoOf(test.pod, of)); (n != nil) != off {
				t.Errorf("%s, disabled %t: %v", test.plugin, off, n)
			}
		}
	}
	if names := fmt.Sprint(PluginNames()); names == "[]" {
		t.Error("no plugins")
	}
}
