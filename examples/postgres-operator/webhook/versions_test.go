package webhook

import (
	"context"
	"fmt"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
	"github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1alpha1"
)

// get reads a claim in the version of into.
func get(t *testing.T, name string, into client.Object) {
	t.Helper()
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

// TestEitherVersion: one claim, written and read in turns in one version and
// the other, by every verb; neither side's words are lost on the other.
func TestEitherVersion(t *testing.T) {
	ready(t)
	o := old("either")
	o.Spec.Settings = []v1alpha1.Setting{{Name: "work_mem", Value: "8MB"}}
	file(t, o)
	var c databasev1.PostgresCluster
	get(t, "either", &c)
	if c.Spec.Replicas != 3 || c.Spec.Version != 16 || c.Spec.Storage.String() != "1Gi" || c.Spec.Parameters["work_mem"] != "8MB" || c.UID != o.UID || c.Generation != 1 {
		t.Errorf("v1 reads %+v", c)
	}

	// v1 says what v1alpha1 cannot; a user of v1alpha1 who writes back what he
	// read does not take it away.
	c.Spec.Storage = resource.MustParse("1500Mi")
	if err := api.Update(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	c.Status = databasev1.PostgresClusterStatus{ObservedGeneration: 2, Replicas: 3, ReadyReplicas: 3,
		Conditions: []metav1.Condition{{Type: databasev1.Ready, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(), ObservedGeneration: 2}}}
	if err := api.Status().Update(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	get(t, "either", o)
	if o.Spec.StorageGiB != 2 || o.Status.Phase != v1alpha1.Running || o.Status.ReadyInstances != 3 {
		t.Errorf("v1alpha1 reads %+v, %+v", o.Spec, o.Status)
	}
	o.Spec.Settings = append(o.Spec.Settings, v1alpha1.Setting{Name: "jit", Value: "off"})
	if err := api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	get(t, "either", &c)
	if c.Spec.Storage.String() != "1500Mi" || c.Spec.Parameters["jit"] != "off" || c.Generation != 3 {
		t.Errorf("v1 reads %+v of generation %d", c.Spec, c.Generation)
	}
	if ready := meta.FindStatusCondition(c.Status.Conditions, databasev1.Ready); ready == nil || ready.Reason != "Test" || c.Status.ObservedGeneration != 2 {
		t.Errorf("v1 reads the status %+v", c.Status)
	}

	// Patches speak the version that they are sent to.
	patch := func(o client.Object, kind types.PatchType, text string) {
		t.Helper()
		if err := api.Patch(t.Context(), o, client.RawPatch(kind, []byte(text))); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	patch(o, types.MergePatchType, `{"spec":{"instances":5}}`)
	patch(&c, types.JSONPatchType, `[{"op":"test","path":"/spec/replicas","value":5},{"op":"replace","path":"/spec/version","value":17}]`)
	patch(o, types.JSONPatchType, `[{"op":"test","path":"/spec/postgresVersion","value":"17"}]`)
	if o.Spec.Instances != 5 || c.Spec.Version != 17 {
		t.Errorf("%+v, %+v", o.Spec, c.Spec)
	}
	// Each version's scale subresource goes by its own path.
	for n, version := range map[int32]client.Object{7: o, 9: &c} {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		if err := api.SubResource("scale").Update(t.Context(), version, client.WithSubResourceBody(scale)); err != nil {
			t.Fatal(err)
		}
		get(t, "either", o)
		get(t, "either", &c)
		if o.Spec.Instances != n || c.Spec.Replicas != n {
			t.Errorf("scaled to %d: %d and %d", n, o.Spec.Instances, c.Spec.Replicas)
		}
	}
	// Server-side apply: what one manager owns in one version another meets
	// as a conflict in the other.
	apply := func(version string, spec map[string]any, owner string) error {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "database.example.com/" + version, "kind": "PostgresCluster",
			"metadata": map[string]any{"namespace": "default", "name": "applied"}, "spec": spec}}
		return api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(owner))
	}
	t.Cleanup(func() { api.Delete(context.Background(), claim("applied")) })
	if err := apply("v1alpha1", map[string]any{"instances": int64(3), "postgresVersion": "16", "storageGiB": int64(1)}, "one"); err != nil {
		t.Fatal(err)
	}
	if err := apply("v1", map[string]any{"replicas": int64(5)}, "two"); !apierrors.IsConflict(err) {
		t.Errorf("another manager in another version: %v", err)
	}
	if err := apply("v1", map[string]any{"parameters": map[string]any{"jit": "off"}}, "two"); err != nil {
		t.Error(err)
	}
	if err := apply("v1alpha1", map[string]any{"instances": int64(1), "postgresVersion": "16", "storageGiB": int64(1)}, "one"); err != nil {
		t.Error(err)
	}
	get(t, "applied", &c)
	if c.Spec.Replicas != 1 || c.Spec.Parameters["jit"] != "off" {
		t.Errorf("applied is %+v", c.Spec)
	}
}

// TestListAndWatch: lists and watches speak the version that is asked for,
// whoever wrote in which.
func TestListAndWatch(t *testing.T) {
	ready(t)
	file(t, claim("list-a"))
	file(t, old("list-b"))
	var olds v1alpha1.PostgresClusterList
	var news databasev1.PostgresClusterList
	for _, list := range []client.ObjectList{&olds, &news} {
		if err := api.List(t.Context(), list, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
	}
	if len(olds.Items) != 2 || olds.Items[0].Spec.Instances != 3 || olds.Items[1].Spec.PostgresVersion != "16" {
		t.Errorf("v1alpha1 lists %+v", olds.Items)
	}
	if len(news.Items) != 2 || news.Items[0].Spec.Version != 16 || news.Items[1].Spec.Replicas != 3 {
		t.Errorf("v1 lists %+v", news.Items)
	}

	from := &client.ListOptions{Namespace: "default", Raw: &metav1.ListOptions{ResourceVersion: news.ResourceVersion}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	oldWatch, err := api.Watch(ctx, &v1alpha1.PostgresClusterList{}, from)
	if err != nil {
		t.Fatal(err)
	}
	newWatch, err := api.Watch(ctx, &databasev1.PostgresClusterList{}, from)
	if err != nil {
		t.Fatal(err)
	}
	file(t, old("list-c"))
	if err := api.Patch(t.Context(), claim("list-c"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":9}}`))); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), old("list-c")); err != nil {
		t.Fatal(err)
	}
	want := []string{"ADDED list-c 3", "MODIFIED list-c 9", "DELETED list-c 9"}
	for what, w := range map[string]watch.Interface{"v1alpha1": oldWatch, "v1": newWatch} {
		for _, next := range want {
			event, ok := <-w.ResultChan()
			if !ok {
				t.Fatalf("the watch of %s ended before %s", what, next)
			}
			got := fmt.Sprintf("%s %T", event.Type, event.Object)
			switch c := event.Object.(type) {
			case *v1alpha1.PostgresCluster:
				got = fmt.Sprintf("%s %s %d", event.Type, c.Name, c.Spec.Instances)
			case *databasev1.PostgresCluster:
				got = fmt.Sprintf("%s %s %d", event.Type, c.Name, c.Spec.Replicas)
			}
			if got != next {
				t.Errorf("%s sees %s, want %s", what, got, next)
			}
		}
	}
}

// TestUpgrade: an operator's second release. Objects of the first, stored as
// v1alpha1, are there in v1 at once; once all are written again, v1alpha1 may
// go, and nothing is left that would need the webhook.
func TestUpgrade(t *testing.T) {
	full := definition(t)
	eventually(t, func() error { // what other tests left
		if err := api.Delete(t.Context(), full.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the definition is still there: %v", err)
		}
		return nil
	})
	first := full.DeepCopy()
	first.Spec.Conversion = nil
	first.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{*full.Spec.Versions[1].DeepCopy()}
	first.Spec.Versions[0].Storage = true
	release(t, first)
	o := old("veteran")
	if err := api.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Delete(context.Background(), claim("veteran")) }) // v1alpha1 is gone by then
	stored := func(want ...string) {
		t.Helper()
		var d apiextensionsv1.CustomResourceDefinition
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(full), &d); err != nil || fmt.Sprint(d.Status.StoredVersions) != fmt.Sprint(want) {
			t.Errorf("stored versions are %v, want %v (%v)", d.Status.StoredVersions, want, err)
		}
	}
	stored("v1alpha1")

	ready(t)
	stored("v1alpha1", "v1")
	var c databasev1.PostgresCluster
	get(t, "veteran", &c)
	if c.UID != o.UID || c.ResourceVersion != o.ResourceVersion || c.Spec.Replicas != 3 || c.Spec.Version != 16 {
		t.Errorf("in v1 it is %+v", c)
	}
	// Only v1 from now on; but that it was stored otherwise is not forgotten.
	last := full.DeepCopy()
	last.Spec.Conversion = nil
	last.Spec.Versions = last.Spec.Versions[:1]
	var d apiextensionsv1.CustomResourceDefinition
	drop := func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(full), &d); err != nil {
			return err
		}
		d.Spec = *last.Spec.DeepCopy()
		return api.Update(t.Context(), &d)
	}
	if err := drop(); !apierrors.IsInvalid(err) {
		t.Fatalf("a version in which something may be stored is dropped: %v", err)
	}
	if err := api.Update(t.Context(), &c); err != nil { // unchanged, and stored as v1
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(full), &d); err != nil {
		t.Fatal(err)
	}
	d.Status.StoredVersions = []string{"v1"}
	if err := api.Status().Update(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	stored("v1")
	// Without a conversion the stored object is read as it is: were it still
	// v1alpha1's, its fields would be unknown and gone.
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o); !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("v1alpha1 is still served: %v", err)
		}
		return nil
	})
	get(t, "veteran", &c)
	if c.UID != o.UID || c.Spec.Replicas != 3 || c.Spec.Version != 16 || c.Spec.Storage.String() != "1Gi" {
		t.Errorf("stored is %+v", c)
	}
}
