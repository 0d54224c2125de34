package webhook

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
	"github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1alpha1"
)

func claim(name string) *databasev1.PostgresCluster {
	return &databasev1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: databasev1.PostgresClusterSpec{Replicas: 3, Version: 16, Storage: resource.MustParse("1Gi")}}
}

// old is a claim as it was written before v1.
func old(name string) *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.PostgresClusterSpec{Instances: 3, PostgresVersion: "16", StorageGiB: 1}}
}

// file files a claim for as long as the test runs.
func file(t *testing.T, c client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Delete(context.Background(), c) }) // the test's own has ended
}

// TestDefaults: what a claim leaves out is filled in, in the version in which
// it was written.
func TestDefaults(t *testing.T) {
	ready(t)
	c := claim("defaults-new")
	c.Spec.Version, c.Spec.Parameters = 0, map[string]string{"work_mem": "8MB"}
	file(t, c)
	if c.Spec.Version != DefaultVersion || len(c.Spec.Parameters) != 2 || c.Spec.Parameters["max_connections"] != "100" {
		t.Errorf("v1 became %+v", c.Spec)
	}
	o := old("defaults-old")
	o.Spec.Instances, o.Spec.PostgresVersion, o.Spec.Settings = 0, "", []v1alpha1.Setting{{Name: "max_connections", Value: "7"}}
	file(t, o)
	if o.Spec.Instances != 1 || o.Spec.PostgresVersion != "17" || len(o.Spec.Settings) != 1 || o.Spec.Settings[0].Value != "7" {
		t.Errorf("v1alpha1 became %+v", o.Spec)
	}
}

// TestRules: what cannot be is refused, however it is written, by the path in
// v1, and what is unwise is warned of.
func TestRules(t *testing.T) {
	ready(t)
	c, o := claim("rules-new"), old("rules-old")
	c.Spec.Parameters, o.Spec.Settings = map[string]string{"port": "1"}, []v1alpha1.Setting{{Name: "port", Value: "1"}}
	const why = `PostgresCluster.database.example.com "rules-`
	for _, claim := range []client.Object{c, o} {
		err := api.Create(t.Context(), claim)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "spec.parameters[port]: Forbidden: the operator sets it") {
			t.Errorf("%T: %v", claim, err)
		}
	}
	c = claim("rules")
	file(t, c)
	c.Spec.Replicas = 4
	if err := api.Update(t.Context(), c); err != nil || !warned.of("spec.replicas: 4 servers survive the loss of no more of them than 3 do") {
		t.Errorf("%v, warned of %v", err, warned.text)
	}
	c.Spec.Version = 15
	if err := api.Update(t.Context(), c); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot go back") {
		t.Errorf("the schema's rule: %v", err)
	}
	// The schema of the version that was written holds, too.
	o = old("rules-schema")
	o.Spec.Instances = 10
	if err := api.Create(t.Context(), o); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "nstances") && !strings.Contains(err.Error(), "spec.replicas") {
		t.Errorf("ten instances: %v", err)
	}
	if !warned.of("database.example.com/v1alpha1 PostgresCluster is deprecated; use database.example.com/v1") {
		t.Errorf("nothing says that v1alpha1 is deprecated: %v", warned.text)
	}
}

// TestKept: a protected cluster is deleted by nobody, one by one or all
// together, in either version.
func TestKept(t *testing.T) {
	ready(t)
	c := claim("kept")
	c.Annotations = map[string]string{KeepAnnotation: "true"}
	file(t, c)
	o := old("kept")
	for _, err := range []error{
		api.Delete(t.Context(), c), api.Delete(t.Context(), o),
		api.DeleteAllOf(t.Context(), &v1alpha1.PostgresCluster{}, client.InNamespace("default"), client.MatchingFields{"metadata.name": "kept"}),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), KeepAnnotation) {
			t.Errorf("got %v", err)
		}
	}
	if err := api.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), c); err != nil {
		t.Error(err)
	}
}
