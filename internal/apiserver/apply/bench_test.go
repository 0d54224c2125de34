package apply

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

func kindOf(t testing.TB, m *Managers, name string) *Kind {
	t.Helper()
	for _, k := range all.Kinds() {
		if k.Resource.String() == name {
			return m.Kind(k)
		}
	}
	t.Fatalf("no kind %s", name)
	return nil
}

func testPod() *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "1", Labels: map[string]string{"app": "a", "hash": "b"}, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", UID: "2"}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: 80}}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		}}},
	}
	for _, k := range all.Kinds() {
		if k.Kind == "Pod" {
			k.HubVersion().Default(p)
		}
	}
	return p
}

func BenchmarkTrackCreate(b *testing.B) {
	m := New()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default"}, Data: map[string]string{"k": strings.Repeat("x", 1024)}}
	for _, bc := range []struct {
		resource string
		obj      kinds.Object
	}{{"configmaps", cm}, {"pods", testPod()}} {
		k := kindOf(b, m, bc.resource)
		b.Run(bc.resource, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bc.obj.SetManagedFields(nil)
				k.Track(nil, bc.obj, Request{Manager: "m"})
			}
		})
	}
}

func BenchmarkTrackUpdate(b *testing.B) {
	m := New()
	k := kindOf(b, m, "pods")
	live := testPod()
	k.Track(nil, live, Request{Manager: "m"})
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		obj := *live
		obj.Status.PodIP = fmt.Sprint(n)
		obj.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: corev1.ConditionStatus(fmt.Sprint(n))}, {Type: "PodScheduled", Status: "True"}}
		k.Track(live, &obj, Request{Manager: "kubelet", Subresource: "status"})
		live = &obj
	}
}

func BenchmarkApply(b *testing.B) {
	m := New()
	k := kindOf(b, m, "configmaps")
	var live kinds.Object
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		obj, err := k.Apply(live, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"},
			"data": map[string]any{"k": fmt.Sprint(n)}}, false, Request{Manager: "m"})
		if err != nil {
			b.Fatal(err)
		}
		live = obj
	}
}
