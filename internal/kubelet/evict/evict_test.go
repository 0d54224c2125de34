package evict

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const mi = 1 << 20

func podOf(name string, priority int32, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "c"}}}}
	for _, f := range change {
		f(p)
	}
	return p
}

func requests(name v1.ResourceName, q string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{name: resource.MustParse(q)}
	}
}

func limits(q string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(q)}
	}
}

func emptyDir(limit string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		dir := &v1.EmptyDirVolumeSource{}
		if limit != "" {
			q := resource.MustParse(limit)
			dir.SizeLimit = &q
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: dir}})
	}
}

func TestExcess(t *testing.T) {
	for _, test := range []struct {
		name string
		use  Usage
		want string
	}{
		{"within its limit", Usage{Pod: podOf("p", 0, emptyDir("10Mi")), Volumes: map[string]int64{"v": 10 * mi}}, ""},
		{"a volume too large", Usage{Pod: podOf("p", 0, emptyDir("10Mi")), Volumes: map[string]int64{"v": 10*mi + 1}}, `Usage of EmptyDir volume "v" exceeds the limit "10Mi". `},
		{"a volume without a limit", Usage{Pod: podOf("p", 0, emptyDir("")), Volumes: map[string]int64{"v": 1 << 40}}, ""},
		{"a limit of nothing is none", Usage{Pod: podOf("p", 0, emptyDir("0")), Volumes: map[string]int64{"v": 1}}, ""},
		{"a container", Usage{Pod: podOf("p", 0, limits("1Mi")), Containers: map[string]Container{"c": {Disk: 2 * mi}}}, `Container c exceeded its local ephemeral storage limit "1Mi". `},
		{"the sum", Usage{Pod: podOf("p", 0, limits("3Mi"), emptyDir("")), Volumes: map[string]int64{"v": 2 * mi}, Containers: map[string]Container{"c": {Disk: 2 * mi}}}, "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. "},
	} {
		got := ""
		for _, e := range Excess([]Usage{{Pod: podOf("other", 0)}, test.use}) {
			got += e.Message
			if e.Pod.Name != "p" || e.Disruption {
				t.Errorf("%s: %+v", test.name, e)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestRelieve(t *testing.T) {
	memory := func(p *v1.Pod, n int64) Usage {
		return Usage{Pod: p, Containers: map[string]Container{"c": {Memory: n * mi}}}
	}
	ask := func(q string) func(*v1.Pod) { return requests(v1.ResourceMemory, q) }
	for _, test := range []struct {
		name string
		pods []Usage
		want string
	}{
		{"nobody there", nil, "none"},
		{"who uses more than it asked for, though more urgent", []Usage{memory(podOf("a", 0, ask("50Mi")), 40), memory(podOf("b", 9, ask("10Mi")), 20)}, "b"},
		{"the less urgent", []Usage{memory(podOf("a", 5), 20), memory(podOf("b", 4), 10)}, "b"},
		{"who uses most", []Usage{memory(podOf("a", 0), 20), memory(podOf("b", 0), 30)}, "b"},
		{"most beyond what it asked for", []Usage{memory(podOf("a", 0, ask("10Mi")), 40), memory(podOf("b", 0, ask("45Mi")), 50)}, "a"},
		{"never a critical one", []Usage{memory(podOf("a", critical), 90)}, "none"},
		{"who uses nothing is no help", []Usage{memory(podOf("a", 0), 0)}, "none"},
	} {
		got := "none"
		if e := Relieve(test.pods, Shortage{Resource: v1.ResourceMemory, Available: 50 * mi, Threshold: 100 * mi}); e != nil {
			if got = e.Pod.Name; !e.Disruption {
				t.Errorf("%s: it is no disruption", test.name)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	e := Relieve([]Usage{memory(podOf("p", 0, ask("10Mi")), 30)}, Shortage{Resource: v1.ResourceMemory, Available: 50 * mi, Threshold: 100 * mi})
	want := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was using 30Mi, request is 10Mi, has larger consumption of memory. "
	if e.Message != want {
		t.Errorf("got  %s\nwant %s", e.Message, want)
	}
	disk := Usage{Pod: podOf("p", 0, emptyDir("")), Volumes: map[string]int64{"v": mi}}
	if e := Relieve([]Usage{disk}, Shortage{Resource: v1.ResourceEphemeralStorage}); e == nil || e.Pod.Name != "p" {
		t.Errorf("by its volumes: %v", fmt.Sprint(e))
	}
}
