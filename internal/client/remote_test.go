package client_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// remote is a client of a server on loopback, and a context that bounds the
// test should it hang.
func remote(t *testing.T) (context.Context, *client.Remote, *apitest.Harness) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	h := apitest.New(t, apitest.Options{HTTP: true})
	r, err := client.NewRemote(h.Config(), client.Identity{UserAgent: "remote-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return ctx, r, h
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"value": value}},
		Data:       map[string]string{"k": value},
	}
}

func TestRemoteVerbs(t *testing.T) {
	ctx, r, _ := remote(t)
	made, err := client.Create(ctx, r, client.ConfigMaps, configMap("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	if made.UID == "" || made.Data["k"] != "1" {
		t.Errorf("created %+v", made)
	}
	if _, err := r.Create(ctx, client.ConfigMaps, made); err == nil {
		t.Error("it is created twice")
	}
	changed := made.DeepCopy()
	changed.Data["k"] = "2"
	if changed, err = client.Update(ctx, r, client.ConfigMaps, changed); err != nil || changed.Data["k"] != "2" {
		t.Errorf("update: %v, %+v", err, changed)
	}
	if _, err := r.Update(ctx, client.ConfigMaps, made); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	patched, err := r.Patch(ctx, client.ConfigMaps, "default", "a", types.MergePatchType, []byte(`{"data":{"k":"3"}}`))
	if err != nil || patched.(*corev1.ConfigMap).Data["k"] != "3" {
		t.Errorf("patch: %v, %+v", err, patched)
	}
	list, revision, err := client.List[*corev1.ConfigMap](ctx, r, client.ConfigMaps, "default", metav1.ListOptions{LabelSelector: "value=1"})
	if err != nil || len(list) != 1 || revision == "" {
		t.Errorf("list: %v, %d objects at %q", err, len(list), revision)
	}
	if err := r.Delete(ctx, client.ConfigMaps, "default", "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}); !apierrors.IsConflict(err) {
		t.Errorf("delete of another uid: %v", err)
	}
	if err := r.DeleteCollection(ctx, client.ConfigMaps, "default", metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "value=1"}); err != nil {
		t.Error(err)
	}
	if _, err := client.Get[*corev1.ConfigMap](ctx, r, client.ConfigMaps, "default", "a"); !apierrors.IsNotFound(err) {
		t.Errorf("get of what is gone: %v", err)
	}
}

func TestRemoteSubresources(t *testing.T) {
	ctx, r, _ := remote(t)
	pod, err := client.Create(ctx, r, client.Pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	pod = pod.DeepCopy()
	pod.Status.Message = "seen"
	if got, err := client.Update(ctx, r, client.Pods, pod, "status"); err != nil || got.Status.Message != "seen" {
		t.Errorf("status: %v, %+v", err, got)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	if _, err := r.Create(ctx, client.Pods, binding, "binding"); err != nil {
		t.Errorf("binding: %v", err)
	}
	if got, err := client.Get[*corev1.Pod](ctx, r, client.Pods, "default", "p"); err != nil || got.Spec.NodeName != "n" {
		t.Errorf("after binding: %v, node %q", err, got.Spec.NodeName)
	}
}

func TestRemoteViewFollows(t *testing.T) {
	ctx, r, h := remote(t)
	first, err := h.Client("t").Create(ctx, client.ConfigMaps, configMap("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, metadata := range []bool{false, true} {
		v := r.View(client.ConfigMaps, client.ViewOptions{Metadata: metadata})
		if again := r.View(client.ConfigMaps, client.ViewOptions{Metadata: metadata}); again != v {
			t.Error("equal views are not shared")
		}
		told := make(chan string, 1000)
		v.Handle(func(old, new client.Object) {
			if new == nil {
				told <- "-" + old.GetName()
			} else {
				told <- new.GetName() + "@" + new.GetLabels()["value"]
			}
		})
		if err := v.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		if v.Get("default", "a").GetUID() != first.GetUID() {
			t.Error("the view does not show what is there")
		}
		made, err := r.Create(ctx, client.ConfigMaps, configMap("b", "1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := v.WaitFor(ctx, made.GetResourceVersion()); err != nil {
			t.Fatal(err)
		}
		if v.Get("default", "b") == nil {
			t.Error("the view does not show what was waited for")
		}
		if _, isMeta := v.Get("default", "b").(*metav1.PartialObjectMetadata); isMeta != metadata {
			t.Errorf("the view shows a %T", v.Get("default", "b"))
		}
		if err := r.Delete(ctx, client.ConfigMaps, "default", "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"a@1", "b@1", "-b"} {
			select {
			case got := <-told:
				if got != want {
					t.Errorf("told %q, want %q", got, want)
				}
			case <-ctx.Done():
				t.Fatalf("not told %q", want)
			}
		}
	}
}

func TestRemoteResources(t *testing.T) {
	ctx, r, _ := remote(t)
	infos, err := r.Resources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(infos, func(info client.ResourceInfo) bool { return info.Resource == client.Deployments })
	if i < 0 || infos[i].Kind != "Deployment" || !infos[i].Namespaced || !slices.Contains(infos[i].Verbs, "watch") {
		t.Errorf("deployments are not among %d resources", len(infos))
	}
}

func TestRemoteWatch(t *testing.T) {
	ctx, r, _ := remote(t)
	w, err := r.Watch(ctx, client.ConfigMaps, "default", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for i := range 3 {
		if _, err := r.Create(ctx, client.ConfigMaps, configMap(fmt.Sprint("w", i), "1")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		select {
		case event := <-w.ResultChan():
			if cm, ok := event.Object.(*corev1.ConfigMap); event.Type != watch.Added || !ok || cm.Name != fmt.Sprint("w", i) {
				t.Errorf("event %d is %+v", i, event)
			}
		case <-ctx.Done():
			t.Fatal("no event")
		}
	}
}
