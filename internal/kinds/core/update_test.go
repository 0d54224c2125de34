package core

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestValidatePodUpdate compares beginnings: the last error ends in a diff of
// the specs that is for people to read.
func TestValidatePodUpdate(t *testing.T) {
	const nothingElse = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
	for _, tc := range []struct {
		name     string
		old, new func(*corev1.Pod)
		want     []string
	}{
		{name: "nothing"},
		{name: "image", new: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }},
		{name: "labels", new: func(p *corev1.Pod) { p.Labels["b"] = "c" }},
		{name: "no image", new: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "" }, want: []string{"spec.containers[0].image: Required value"}},
		{name: "command", new: func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"x"} }, want: []string{nothingElse}},
		{name: "node", new: func(p *corev1.Pod) { p.Spec.NodeName = "n" }, want: []string{nothingElse}},
		{name: "another container", new: func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "d"})
		}, want: []string{"spec.containers: Forbidden: pod updates may not add or remove containers"}},
		{name: "deadline set", new: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) }},
		{name: "deadline later", old: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) }, new: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(6)) },
			want: []string{"spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"}},
		{name: "deadline gone", old: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) }, new: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil },
			want: []string{"spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"}},
		{name: "toleration added", old: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} },
			new: func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "b"}) }},
		{name: "toleration gone", old: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, new: func(p *corev1.Pod) { p.Spec.Tolerations = nil },
			want: []string{"spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"}},
		{name: "gate opened", old: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, new: func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }},
		{name: "gate added", new: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
			want: []string{"spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"}},
		{name: "gated selector narrowed", old: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
			new: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }},
		{name: "selector narrowed", new: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, want: []string{nothingElse}},
		{name: "negative grace mended", old: func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(-1)) }, new: func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1)) }},
		{name: "grace", new: func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1)) }, want: []string{nothingElse}},
		{name: "mirror", new: func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}, want: []string{
			`metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set`,
			"metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation",
			`metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := newPod(tc.old)
			obj := old.DeepCopy()
			if tc.new != nil {
				tc.new(obj)
			}
			defaultPod(obj)
			got := lines(validatePodUpdate(obj, old))
			for i := range got {
				if i < len(tc.want) && strings.HasPrefix(got[i], tc.want[i]) {
					got[i] = tc.want[i]
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodStatus(t *testing.T) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	old := newPod(func(p *corev1.Pod) { p.Spec.RestartPolicy = "Never" })
	old.Status = corev1.PodStatus{
		Phase: "Failed", QOSClass: "BestEffort", ObservedGeneration: 3,
		Conditions:        []corev1.PodCondition{{Type: "Ready", ObservedGeneration: 2}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: ended}},
	}
	obj := old.DeepCopy()
	obj.Spec.NodeName = "elsewhere"
	obj.OwnerReferences = []metav1.OwnerReference{{Name: "x"}}
	obj.Status = corev1.PodStatus{
		QOSClass: "", Conditions: []corev1.PodCondition{{Type: "Ready"}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}},
		HostIP:            "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.2"}},
		PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "10.0.0.1"}},
	}
	preparePodStatus(obj, old)
	if obj.Spec.NodeName != "" || obj.OwnerReferences != nil {
		t.Error("a status update changed more than the status")
	}
	if obj.Status.QOSClass != "BestEffort" || obj.Status.ObservedGeneration != 3 || obj.Status.Conditions[0].ObservedGeneration != 2 {
		t.Errorf("what the writer left out is lost: %+v", obj.Status)
	}
	want := []string{
		"status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
		`status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.1"}]: may specify no more than one IP for each IP family`,
		`status.podIPs[1]: Duplicate value: "10.0.0.1"`,
		"status.hostIPs[0].ip: Invalid value: \"10.0.0.2\": must be equal to `hostIP`",
	}
	if diff := cmp.Diff(want, lines(validatePodStatus(obj, old))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPreparePod(t *testing.T) {
	p := newPod(func(p *corev1.Pod) {
		p.Generation = 7
		p.Status.Phase = "Running"
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"app", "none"}, TopologyKey: "zone"},
		}}}
	})
	preparePod(p)
	if p.Generation != 1 || p.Status.Phase != "Pending" || p.Status.QOSClass != "BestEffort" || p.Status.Conditions[0].Reason != "SchedulingGated" {
		t.Errorf("generation %d, status %+v", p.Generation, p.Status)
	}
	want := []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In", Values: []string{"a"}}}
	if diff := cmp.Diff(want, p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchExpressions); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	if errs := validatePod(p); len(errs) > 0 {
		t.Errorf("keys merged into the selector are refused: %v", errs)
	}
}

func TestGeneration(t *testing.T) {
	ctx, k := context.Background(), pod()
	old := newPod(nil)
	k.PrepareCreate(ctx, old)
	obj := old.DeepCopy()
	k.PrepareUpdate(ctx, obj, old)
	if obj.Generation != 1 {
		t.Errorf("generation %d after no change", obj.Generation)
	}
	obj.Spec.Containers[0].Image = "new"
	k.PrepareUpdate(ctx, obj, old)
	if obj.Generation != 2 {
		t.Errorf("generation %d after a change", obj.Generation)
	}
}

func TestQOSClass(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != "" {
			out["cpu"] = resource.MustParse(cpu)
		}
		if memory != "" {
			out["memory"] = resource.MustParse(memory)
		}
		return out
	}
	for _, tc := range []struct {
		requests, limits corev1.ResourceList
		want             corev1.PodQOSClass
	}{
		{nil, nil, "BestEffort"},
		{list("1", ""), nil, "Burstable"},
		{nil, list("1", "1Gi"), "Guaranteed"}, // requests are filled in
		{list("1", "1Gi"), list("1", "1Gi"), "Guaranteed"},
		{list("1", "1Gi"), list("2", "1Gi"), "Burstable"},
		{nil, list("1", ""), "Burstable"},
	} {
		p := newPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: tc.requests, Limits: tc.limits}
		})
		if got := QOSClass(&p.Spec); got != tc.want {
			t.Errorf("requests %v limits %v: %s, want %s", tc.requests, tc.limits, got, tc.want)
		}
	}
}

func TestPodGrace(t *testing.T) {
	for _, tc := range []struct {
		name    string
		node    string
		phase   corev1.PodPhase
		claim   *int64
		seconds *int64
		want    int64
	}{
		{name: "as claimed", node: "n", claim: new(int64(7)), want: 7},
		{name: "as asked", node: "n", claim: new(int64(7)), seconds: new(int64(3)), want: 3},
		{name: "now", node: "n", claim: new(int64(7)), seconds: new(int64(0))},
		{name: "unbound", claim: new(int64(7)), seconds: new(int64(3))},
		{name: "ended", node: "n", phase: "Succeeded", claim: new(int64(7))},
		{name: "negative", node: "n", claim: new(int64(-1)), want: 1},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: tc.node, TerminationGracePeriodSeconds: tc.claim}, Status: corev1.PodStatus{Phase: tc.phase}}
		if got, graceful := podGrace(p, tc.seconds); got != tc.want || graceful != (tc.want > 0) {
			t.Errorf("%s: %d %v, want %d", tc.name, got, graceful, tc.want)
		}
	}
}

func TestEphemeralContainersAndResize(t *testing.T) {
	ctx, k := context.Background(), pod()
	old := newPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	})
	k.PrepareCreate(ctx, old)

	obj := old.DeepCopy()
	obj.Spec.Containers[0].Image = "other"
	obj.Labels["x"] = "y"
	obj.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "sh"}}}
	defaultPod(obj)
	sub := k.Subresources["ephemeralcontainers"]
	sub.PrepareUpdate(ctx, obj, old)
	if obj.Spec.Containers[0].Image != "img" || obj.Labels["x"] != "" || obj.Generation != 2 {
		t.Error("the view changed more than ephemeral containers")
	}
	if errs := sub.ValidateUpdate(ctx, obj, old); len(errs) > 0 {
		t.Error(errs)
	}
	if got := lines(sub.ValidateUpdate(ctx, old, obj)); len(got) != 1 || !strings.Contains(got[0], `existing ephemeral containers "debug" may not be removed`) {
		t.Errorf("removal: %q", got)
	}

	obj = old.DeepCopy()
	obj.Spec.Containers[0].Image = "other"
	obj.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
	sub = k.Subresources["resize"]
	sub.PrepareUpdate(ctx, obj, old)
	if obj.Spec.Containers[0].Image != "img" {
		t.Error("resize changed the image")
	}
	if errs := sub.ValidateUpdate(ctx, obj, old); len(errs) > 0 {
		t.Error(errs)
	}
	obj.Spec.Containers[0].Resources.Requests = nil
	want := []string{
		"spec: Invalid value: \"BestEffort\": Pod QOS Class may not change as a result of resizing",
		"spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
	}
	old.Status.QOSClass = "BestEffort"
	if diff := cmp.Diff(want, lines(sub.ValidateUpdate(ctx, obj, old))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
