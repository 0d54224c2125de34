package admission

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRuntimeClass(t *testing.T) {
	costs := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	seconds := func(n int64) *int64 { return &n }
	w := world{
		"runtimeclasses//plain": &nodev1.RuntimeClass{ObjectMeta: named("", "plain"), Handler: "runc"},
		"runtimeclasses//vm": &nodev1.RuntimeClass{ObjectMeta: named("", "vm"), Handler: "vm", Overhead: &nodev1.Overhead{PodFixed: costs},
			Scheduling: &nodev1.Scheduling{
				NodeSelector: map[string]string{"vm": "yes"},
				Tolerations: []corev1.Toleration{
					{Key: "vm", Operator: corev1.TolerationOpExists},
					{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds(9)},
				},
			}},
	}
	p := &RuntimeClass{Get: w.get}
	pod := func(class string, change ...func(*corev1.PodSpec)) *corev1.Pod {
		pod := podOf("web")
		if class != "" {
			pod.Spec.RuntimeClassName = &class
		}
		for _, f := range change {
			f(&pod.Spec)
		}
		return pod
	}
	refused := func(part string, pod *corev1.Pod) {
		t.Helper()
		err := p.Admit(t.Context(), request(Create, "pods", pod, nil))
		if err == nil {
			err = p.Validate(t.Context(), request(Create, "pods", pod, nil))
		}
		wantRefused(t, err, 403, part)
	}
	for _, class := range []string{"", "plain"} {
		got := pod(class)
		mustAdmit(t, p, request(Create, "pods", got, nil))
		if diff := cmp.Diff(pod(class), got); diff != "" {
			t.Errorf("class %q changed the pod (-want +got):\n%s", class, diff)
		}
	}
	own := []corev1.Toleration{
		{Key: "vm", Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoSchedule},                           // covered by the class
		{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds(20)},        // covers the class's
		{Key: "other", Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: nil}, // neither
	}
	got := pod("vm", func(s *corev1.PodSpec) { s.NodeSelector, s.Tolerations = map[string]string{"disk": "fast"}, own })
	for range 2 { // a second time changes nothing
		mustAdmit(t, p, request(Create, "pods", got, nil))
		want := pod("vm", func(s *corev1.PodSpec) {
			s.Overhead, s.NodeSelector = costs, map[string]string{"disk": "fast", "vm": "yes"}
			s.Tolerations = []corev1.Toleration{own[1], own[2], {Key: "vm", Operator: corev1.TolerationOpExists}}
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pod (-want +got):\n%s", diff)
		}
	}
	refused(`pods "x" is forbidden: pod rejected: RuntimeClass "none" not found`, pod("none"))
	refused("conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no", pod("vm", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"vm": "no"} }))
	refused("pod rejected: Pod's Overhead doesn't match", pod("vm", func(s *corev1.PodSpec) {
		s.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
	}))
	for _, class := range []string{"", "plain"} {
		refused("Pod Overhead set without corresponding RuntimeClass defined Overhead", pod(class, func(s *corev1.PodSpec) { s.Overhead = costs }))
	}
	mustAdmit(t, p, request(Update, "pods", pod("none"), pod("none"))) // the class has gone since
}

func TestDefaultIngressClass(t *testing.T) {
	class := func(name string, age int, isDefault string) *networkingv1.IngressClass {
		c := &networkingv1.IngressClass{ObjectMeta: named("", name)}
		c.CreationTimestamp = metav1.NewTime(time.Unix(int64(1000-age), 0))
		c.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: isDefault}
		return c
	}
	w := world{"ingressclasses//no": class("no", 0, "false")}
	p := &DefaultIngressClass{List: w.list}
	admitted := func(op Operation, in *networkingv1.Ingress) string {
		t.Helper()
		mustAdmit(t, p, request(op, "ingresses.networking.k8s.io", in, nil))
		if in.Spec.IngressClassName == nil {
			return ""
		}
		return *in.Spec.IngressClassName
	}
	plain := func() *networkingv1.Ingress { return &networkingv1.Ingress{ObjectMeta: named("web", "in")} }
	if got := admitted(Create, plain()); got != "" {
		t.Errorf("without a default class: %q", got)
	}
	w["ingressclasses//old"], w["ingressclasses//b"], w["ingressclasses//a"] = class("old", 9, "true"), class("b", 2, "true"), class("a", 2, "true")
	if got := admitted(Create, plain()); got != "a" {
		t.Errorf("of several defaults: %q, want the youngest, the first by name", got)
	}
	if got := admitted(Update, plain()); got != "" {
		t.Errorf("update: %q", got)
	}
	named := plain()
	named.Spec.IngressClassName = new("mine")
	if got := admitted(Create, named); got != "mine" {
		t.Errorf("with a class: %q", got)
	}
	old := plain()
	old.Annotations = map[string]string{oldIngressClass: "mine"}
	if got := admitted(Create, old); got != "" {
		t.Errorf("with the annotation: %q", got)
	}
}
