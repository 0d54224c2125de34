package v1alpha1

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
)

// some is any v1 object: of each field what is special about it, or nothing.
func some(r *rand.Rand) *databasev1.PostgresCluster {
	c := &databasev1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any", Generation: 3}}
	c.Spec.Replicas, c.Spec.Version = r.Int32N(10), 13+r.Int32N(6)
	c.Spec.Storage = resource.MustParse([]string{"1Gi", "10Gi", "1500Mi", "1", "2G", "3Ti"}[r.IntN(6)])
	for i := range r.IntN(3) {
		if c.Spec.Parameters == nil {
			c.Spec.Parameters = map[string]string{}
		}
		c.Spec.Parameters[fmt.Sprintf("p%d", i)] = []string{"", "on", "a, b"}[r.IntN(3)]
	}
	if r.IntN(2) == 0 {
		c.Annotations = map[string]string{"note": "kept"}
	}
	if r.IntN(2) == 0 {
		status := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}[r.IntN(3)]
		c.Status = databasev1.PostgresClusterStatus{ObservedGeneration: 2, Replicas: 3, ReadyReplicas: r.Int32N(4), Endpoint: "any.default.svc:5432",
			Conditions: []metav1.Condition{{Type: databasev1.Ready, Status: status, Reason: "Because", Message: "so", ObservedGeneration: 2,
				LastTransitionTime: metav1.NewTime(time.Unix(r.Int64N(1<<31), 0))}}}
	}
	return c
}

// TestNothingIsLost: what v1 says is there again after a way through v1alpha1,
// and what v1alpha1 says after one through v1.
func TestNothingIsLost(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		want := some(r)
		var old, again PostgresCluster
		var got databasev1.PostgresCluster
		for _, err := range []error{old.ConvertFrom(want.DeepCopy()), old.DeepCopy().ConvertTo(&got), again.ConvertFrom(got.DeepCopy())} {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if !equality.Semantic.DeepEqual(want, &got) {
			t.Fatalf("seed %d: %+v\nbecame %+v\nby way of %+v", seed, want, got, old)
		}
		if !reflect.DeepEqual(old, again) {
			t.Fatalf("seed %d: %+v\nbecame %+v", seed, old, again)
		}
	}
}

// TestWhoChangesIsHeard: what was kept of v1 does not overrule what a user of
// v1alpha1 writes.
func TestWhoChangesIsHeard(t *testing.T) {
	hub := &databasev1.PostgresCluster{Spec: databasev1.PostgresClusterSpec{Version: 17, Storage: resource.MustParse("1500Mi")}}
	var old PostgresCluster
	if err := old.ConvertFrom(hub); err != nil {
		t.Fatal(err)
	}
	if old.Spec.StorageGiB != 2 {
		t.Errorf("1500Mi are %d GiB", old.Spec.StorageGiB)
	}
	old.Spec.StorageGiB, old.Spec.PostgresVersion, old.Spec.Settings = 3, "18", []Setting{{"a", "b"}}
	if err := old.ConvertTo(hub); err != nil {
		t.Fatal(err)
	}
	if s := hub.Spec; s.Storage.String() != "3Gi" || s.Version != 18 || !maps.Equal(s.Parameters, map[string]string{"a": "b"}) {
		t.Errorf("it became %+v", s)
	}
	old.Spec.PostgresVersion = "latest"
	if err := old.ConvertTo(hub); err == nil {
		t.Error("a version that is no number is taken")
	}
}
