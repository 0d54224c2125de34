package apiserver_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// A bound pod, which shares parts with the pod before, is what reading the
// stored bytes gives; and the pod before stays as it was.
func TestBoundIsStored(t *testing.T) {
	h := apitest.New(t, apitest.Options{Kinds: lax()})
	c, ctx := h.Client("t"), context.Background()
	var podKind *kinds.Kind
	for _, k := range lax() {
		if k.Resource.Group == "" && k.Resource.Resource == "pods" {
			podKind = k
		}
	}
	for seed := range int64(60) {
		random := careless(seed)
		pod := &corev1.Pod{}
		random.Fill(pod)
		pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Spec.SchedulingGates = "default", "filled", "", nil
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "filled"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
		switch seed % 3 {
		case 1:
			pod.Labels = map[string]string{"mine": "1", "both": "1"}
			binding.Labels, binding.Annotations = map[string]string{"both": "2", "its": "2"}, map[string]string{"its": "2"}
		case 2:
			binding.Labels, binding.Annotations = map[string]string{}, map[string]string{"its": "2"}
		}
		if _, err := c.Create(ctx, client.Pods, pod); err != nil {
			t.Fatal(err)
		}
		before := checkShared(t, h, c, podKind, client.Pods, "default", "create").(*corev1.Pod)
		if seed%2 == 0 { // a condition that is there is changed, not added
			again := before.DeepCopy()
			again.Status.NominatedNodeName = "m"
			again.Status.Conditions = append(again.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "r"})
			got, err := c.Update(ctx, client.Pods, again, "status")
			if err != nil {
				t.Fatal(err)
			}
			before = got.(*corev1.Pod)
		}
		was := before.DeepCopy()
		if _, err := c.Create(ctx, client.Pods, binding, "binding"); err != nil {
			t.Fatal(err)
		}
		after := checkShared(t, h, c, podKind, client.Pods, "default", "binding").(*corev1.Pod)
		if after.Spec.NodeName != "n" {
			t.Fatalf("the pod is on %q", after.Spec.NodeName)
		}
		if n := after.Status.NominatedNodeName; n != "" {
			t.Fatalf("the bound pod is still nominated for %q", n)
		}
		for k, v := range binding.Labels {
			if after.Labels[k] != v {
				t.Fatalf("labels %v, want those of the binding", after.Labels)
			}
		}
		if !reflect.DeepEqual(before, was) {
			t.Fatalf("the pod before was changed (-was +is):\n%s", cmp.Diff(was, before))
		}
		remove(t, c, client.Pods, "default")
	}
}
