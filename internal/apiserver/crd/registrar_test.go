package crd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
)

// A definition is served once it is created; its objects are pruned, given
// defaults, listed, watched and changed as others are.
func TestServe(t *testing.T) {
	inBubble(t, func(w *world) {
		d := w.define(crontabs)
		if diff := cmp.Diff([]string{"NamesAccepted=True NoConflicts", "Established=True InitialNamesAccepted"}, conditions(d)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		if !slices.Equal(d.Status.StoredVersions, []string{"v1"}) || d.Status.AcceptedNames.ListKind != "CronTabList" {
			t.Errorf("status is %+v", d.Status)
		}
		events, err := w.Watch(w.ctx, cronTabs, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Stop()
		got := w.make(cronTabs, aCronTab)
		want := map[string]any{"cronSpec": "* * * * *", "replicas": int64(1)}
		if diff := cmp.Diff(want, got.Object["spec"]); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
		if got.Object["status"] != nil || got.GetGeneration() != 1 || got.GetUID() == "" || got.GetLabels()["a"] != "b" {
			t.Errorf("created %v", got.Object)
		}
		patched, err := w.Patch(w.ctx, cronTabs, "default", "one", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
		if err != nil {
			t.Fatal(err)
		}
		if patched.GetGeneration() != 2 {
			t.Errorf("generation %d after a change of the claim, want 2", patched.GetGeneration())
		}
		for _, kind := range []watch.EventType{watch.Added, watch.Modified} {
			ev := <-events.ResultChan()
			if u, ok := ev.Object.(*unstructured.Unstructured); ev.Type != kind || !ok || u.GetName() != "one" {
				t.Errorf("event %s %v, want %s of one", ev.Type, ev.Object, kind)
			}
		}
		objs, _, err := w.List(w.ctx, cronTabs, "", metav1.ListOptions{LabelSelector: "a=b"})
		if err != nil || len(objs) != 1 {
			t.Errorf("listed %d objects, %v", len(objs), err)
		}
	})
}

// A status is written by itself, and the claim by itself.
func TestStatus(t *testing.T) {
	inBubble(t, func(w *world) {
		w.define(crontabs)
		u := w.make(cronTabs, aCronTab).DeepCopy()
		u.Object["status"] = map[string]any{"active": int64(3)}
		u.Object["spec"].(map[string]any)["replicas"] = int64(9)
		got, err := w.Update(w.ctx, cronTabs, u, "status")
		if err != nil {
			t.Fatal(err)
		}
		content := got.(*unstructured.Unstructured).Object
		if diff := cmp.Diff(map[string]any{"active": int64(3)}, content["status"]); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		if n, _, _ := unstructured.NestedInt64(content, "spec", "replicas"); n != 1 || got.GetGeneration() != 1 {
			t.Errorf("replicas %d, generation %d: a status changed the claim", n, got.GetGeneration())
		}
	})
}

// Deleting a definition deletes its objects, waits for those that are held,
// and ends the watches on them.
func TestDeleteDefinition(t *testing.T) {
	inBubble(t, func(w *world) {
		w.define(crontabs)
		w.make(cronTabs, aCronTab)
		held := object(t, aCronTab)
		held.SetName("held")
		held.SetFinalizers([]string{"example.com/held"})
		if _, err := w.Create(w.ctx, cronTabs, held); err != nil {
			t.Fatal(err)
		}
		events, err := w.Watch(w.ctx, cronTabs, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Delete(w.ctx, crd.Definitions, "", "crontabs.stable.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		d := w.definition("crontabs.stable.example.com")
		if !slices.Contains(conditions(d), "Terminating=True InstanceDeletionInProgress") {
			t.Errorf("conditions are %q", conditions(d))
		}
		if _, err := w.Get(w.ctx, cronTabs, "default", "one"); !apierrors.IsNotFound(err) {
			t.Errorf("get of a deleted object: %v", err)
		}
		late := object(t, aCronTab)
		if _, err := w.Create(w.ctx, cronTabs, late); !apierrors.IsForbidden(err) {
			t.Errorf("create while terminating: %v", err)
		}
		if _, err := w.Patch(w.ctx, cronTabs, "default", "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)); err != nil {
			t.Fatal(err)
		}
		var kinds []watch.EventType
		for ev := range events.ResultChan() {
			kinds = append(kinds, ev.Type)
		}
		if want := []watch.EventType{watch.Added, watch.Added, watch.Modified, watch.Deleted, watch.Deleted}; len(kinds) != len(want) {
			t.Errorf("events %v, want %v in some order", kinds, want)
		}
		synctest.Wait()
		if _, err := w.Get(w.ctx, crd.Definitions, "", d.Name); !apierrors.IsNotFound(err) {
			t.Errorf("get of the deleted definition: %v", err)
		}
		if _, _, err := w.List(w.ctx, cronTabs, "", metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("list of what is no longer served: %v", err)
		}
	})
}

// Names are given to whoever comes first; who comes later gets them when they
// are free again.
func TestNameConflict(t *testing.T) {
	inBubble(t, func(w *world) {
		w.define(crontabs)
		second := strings.NewReplacer("crontabs", "cronjobbers", "[ct]", "[ct, cj]").Replace(crontabs)
		d := w.define(second)
		want := []string{"NamesAccepted=False ListKindConflict", "Established=False NotAccepted"}
		if diff := cmp.Diff(want, conditions(d)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		if n := d.Status.AcceptedNames; n.Plural != "cronjobbers" || n.Kind != "" || len(n.ShortNames) != 0 {
			t.Errorf("accepted %+v", n)
		}
		if err := w.Delete(w.ctx, crd.Definitions, "", "crontabs.stable.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		d = w.definition("cronjobbers.stable.example.com")
		if !slices.Contains(conditions(d), "Established=True InitialNamesAccepted") {
			t.Errorf("conditions %q after the names are free", conditions(d))
		}
	})
}

// A definition goes with its objects whatever versions it serves and stores, at
// first and later: none among them.
func TestDeleteDefinitionWhateverItServes(t *testing.T) {
	const name = "boxes.example.com"
	for n := range 64 {
		bit := func(i int) bool { return n>>i&1 == 1 }
		change := func(served1, served2, second bool) func(*apiextensionsv1.CustomResourceDefinition) {
			return func(d *apiextensionsv1.CustomResourceDefinition) {
				one, two := &d.Spec.Versions[0], &d.Spec.Versions[1]
				one.Served, two.Served = served1, served2
				one.Storage, two.Storage = !second, second
			}
		}
		t.Run(fmt.Sprintf("%06b", n), func(t *testing.T) {
			inBubble(t, func(w *world) {
				d := definition(t, twoVersions)
				change(bit(0), bit(1), bit(2))(d)
				if _, err := w.Create(w.ctx, crd.Definitions, d); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := w.definition(name); !slices.Contains(conditions(got), "Established=True InitialNamesAccepted") {
					t.Fatalf("conditions %q", conditions(got))
				}
				if bit(0) {
					w.make(boxes1, aBox)
				}
				if bit(1) {
					two := strings.NewReplacer("example.com/v1", "example.com/v2", "one", "two").Replace(aBox)
					w.make(boxes2, two)
				}
				if err := w.redefine(name, change(bit(3), bit(4), bit(5))); err != nil {
					t.Fatal(err)
				}
				if err := w.Delete(w.ctx, crd.Definitions, "", name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if _, err := w.Get(w.ctx, crd.Definitions, "", name); !apierrors.IsNotFound(err) {
					t.Errorf("get of the deleted definition: %v", err)
				}
				w.define(twoVersions)
				if left, _, err := w.List(w.ctx, boxes1, "", metav1.ListOptions{}); err != nil || len(left) != 0 {
					t.Errorf("defined again: %d objects, %v", len(left), err)
				}
			})
		})
	}
}
