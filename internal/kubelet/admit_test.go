package kubelet

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

func TestAdmit(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"disk": "ssd"}}}
	has := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourcePods: resource.MustParse("3")}
	want := func(cpu, mem string) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(mem)}}}}}}
	}
	port := func(p int32, ip string) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Ports: []v1.ContainerPort{{HostPort: p, HostIP: ip}}}}}}
	}
	needs := func(name v1.ResourceName) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{name: resource.MustParse("1")}}}}}}
	}
	selects := want("1m", "1")
	selects.Spec.NodeSelector = map[string]string{"disk": "hdd"}
	for name, c := range map[string]struct {
		others []*v1.Pod
		pod    *v1.Pod
		reason string
	}{
		"fits":               {[]*v1.Pod{want("1", "512Mi")}, want("1", "512Mi"), ""},
		"no cpu":             {[]*v1.Pod{want("1", "1")}, want("1001m", "1"), "OutOfcpu"},
		"no memory":          {[]*v1.Pod{want("1", "1Gi")}, want("1", "1"), "OutOfmemory"},
		"too many":           {[]*v1.Pod{want("0", "0"), want("0", "0"), want("0", "0")}, want("0", "0"), "OutOfpods"},
		"others' resource":   {nil, needs("example.com/gpu"), ""},
		"unknown resource":   {nil, needs("hugepages-2Mi"), "OutOfhugepages-2Mi"},
		"elsewhere":          {nil, selects, "NodeAffinity"},
		"port taken":         {[]*v1.Pod{port(80, "")}, port(80, "10.0.0.1"), "NodePorts"},
		"port of another ip": {[]*v1.Pod{port(80, "10.0.0.2")}, port(80, "10.0.0.1"), ""},
		"other port":         {[]*v1.Pod{port(81, "")}, port(80, ""), ""},
	} {
		f := Admit(n, has, c.others, c.pod)
		if got := map[bool]string{true: ""}[f == nil]; f != nil {
			got = f.Reason
			if got != c.reason {
				t.Errorf("%s: %q, want %q", name, got, c.reason)
			}
		} else if c.reason != got {
			t.Errorf("%s: admitted, want %q", name, c.reason)
		}
	}
	f := Admit(n, has, []*v1.Pod{want("1500m", "1")}, want("1", "1"))
	if f == nil || f.Message != "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000" {
		t.Errorf("failure is %+v", f)
	}
}

// TestAdmission: of pods that are new together, those that were taken count
// from then on and those that were rejected never, in whatever order they ask
// and before the API server knows of either.
func TestAdmission(t *testing.T) {
	has := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourcePods: resource.MustParse("10")}
	pod := func(uid, cpu string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}}}
	}
	started, over := pod("started", "500m"), pod("over", "2")
	started.Status.StartTime = &metav1.Time{}
	over.Status.Phase = v1.PodFailed
	running, greedy, one, two := pod("running", "500m"), pod("greedy", "1000"), pod("one", "1"), pod("two", "1")
	all := []client.Object{started, over, running, greedy, one, two}
	for _, order := range [][]*v1.Pod{{greedy, one, two}, {one, greedy, two}, {one, two, greedy}} {
		var a admission
		ask := func(pods []client.Object, p *v1.Pod) *status.Failure {
			return a.decide(pods, p, func(others []*v1.Pod) *status.Failure {
				if p == running {
					return nil
				}
				return Admit(nil, has, others, p)
			})
		}
		if f := ask(all, running); f != nil {
			t.Errorf("a running pod is rejected: %v", f)
		}
		for _, p := range order {
			if f := ask(all, p); (f == nil) != (p == one) {
				t.Errorf("of %v, pod %s: %+v", order, p.UID, f)
			}
		}
		if f := ask([]client.Object{started, running, two}, two); f != nil {
			t.Errorf("a pod that is gone still counts: %+v", f)
		}
	}
}

func TestSuperfluous(t *testing.T) {
	box := func(id, uid, name string, at int64, dead bool) *runtimeapi.Container {
		c := &runtimeapi.Container{Id: id, CreatedAt: at, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
			Labels: map[string]string{cri.LabelPodUID: uid, cri.LabelContainerName: name}}
		if dead {
			c.State = runtimeapi.ContainerState_CONTAINER_EXITED
		}
		return c
	}
	got := superfluous([]*runtimeapi.Container{box("a1", "u", "a", 1, true), box("a3", "u", "a", 3, true), box("a2", "u", "a", 2, true), box("a4", "u", "a", 4, false),
		box("b1", "u", "b", 1, true), box("b2", "u", "b", 2, true), box("c1", "v", "a", 1, true)})
	if len(got) != 2 || got[0].Id != "a1" || got[1].Id != "a2" {
		t.Errorf("superfluous are %v", got)
	}
}

func TestOrphan(t *testing.T) {
	p := orphan("u", &found{labels: map[string]string{cri.LabelPodName: "p", cri.LabelPodNamespace: "ns"}, notes: map[string]string{cri.AnnotationPodGracePeriod: "7"}})
	if p.UID != types.UID("u") || p.Name != "p" || p.Namespace != "ns" || *p.Spec.TerminationGracePeriodSeconds != 7 {
		t.Errorf("pod is %+v", p)
	}
}
