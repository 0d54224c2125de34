package strategy

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSplit(t *testing.T) {
	ctx, split := context.Background(), Counted[appsv1.Deployment]()
	old := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 9}, Status: appsv1.DeploymentStatus{Replicas: 3}}
	split.PrepareCreate(ctx, old)
	if old.Generation != 1 || old.Status.Replicas != 0 {
		t.Fatalf("created with generation %d, status %+v", old.Generation, old.Status)
	}
	old.Status.Replicas = 2

	obj := old.DeepCopy()
	obj.Status.Replicas = 7
	split.PrepareUpdate(ctx, obj, old)
	if obj.Generation != 1 || obj.Status.Replicas != 2 {
		t.Errorf("the claim's update: generation %d, status %+v", obj.Generation, obj.Status)
	}
	obj.Spec.Paused = true
	split.PrepareUpdate(ctx, obj, old)
	if obj.Generation != 2 {
		t.Errorf("generation %d after a new claim", obj.Generation)
	}

	obj = old.DeepCopy()
	obj.Spec.Paused, obj.Status.Replicas, obj.Labels = true, 5, map[string]string{"a": "b"}
	split.PrepareStatus(ctx, obj, old)
	if obj.Spec.Paused || obj.Status.Replicas != 5 || obj.Labels["a"] != "b" {
		t.Errorf("the status' update: %+v", obj)
	}
	split.PrepareStatusOnly(ctx, obj, old)
	if obj.Labels != nil {
		t.Error("metadata changed with the status only")
	}
}

// TestSplitWithoutSpec: in a type without spec all fields are the claim.
func TestSplitWithoutSpec(t *testing.T) {
	ctx, split := context.Background(), Counted[discoveryv1.EndpointSlice]()
	old := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
	obj := old.DeepCopy()
	obj.Labels = map[string]string{"a": "b"}
	split.PrepareUpdate(ctx, obj, old)
	if obj.Generation != 4 {
		t.Errorf("generation %d after a label", obj.Generation)
	}
	obj.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}
	split.PrepareUpdate(ctx, obj, old)
	if obj.Generation != 5 {
		t.Errorf("generation %d after an endpoint", obj.Generation)
	}
}

func TestScale(t *testing.T) {
	sub := Scale(func(r *appsv1.ReplicaSet) Replicas {
		return Replicas{Want: &r.Spec.Replicas, Have: r.Status.Replicas, Selector: Selector(r.Spec.Selector)}
	})
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns", UID: "u", ResourceVersion: "3"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		Status:     appsv1.ReplicaSetStatus{Replicas: 1},
	}
	view, err := sub.Get(rs)
	if err != nil {
		t.Fatal(err)
	}
	want := &autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns", UID: "u", ResourceVersion: "3"},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 2}, Status: autoscalingv1.ScaleStatus{Replicas: 1, Selector: "a=b"},
	}
	if diff := cmp.Diff(want, view); diff != "" {
		t.Errorf("scale (-want +got):\n%s", diff)
	}
	want.Spec.Replicas = 5
	changed, err := sub.Set(rs, want)
	if err != nil || *changed.(*appsv1.ReplicaSet).Spec.Replicas != 5 || *rs.Spec.Replicas != 2 {
		t.Errorf("set: %v, %v; the old one has %d", changed, err, *rs.Spec.Replicas)
	}
	want.Spec.Replicas = -1
	if _, err = sub.Set(rs, want); err == nil || err.Error() != `Scale.autoscaling "x" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0` {
		t.Errorf("set to -1: %v", err)
	}
}

func TestWarningsOfNew(t *testing.T) {
	warn := Warnings(func(obj, old *corev1.Pod) []string {
		if old == nil {
			return []string{"new"}
		}
		return nil
	})
	if got := warn(context.Background(), &corev1.Pod{}, nil); len(got) != 1 {
		t.Error("a new object has an old one")
	}
}
