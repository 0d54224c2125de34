package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

// TestClientGo goes through the life of an object with client-go's dynamic
// client, over TLS and HTTP/2.
func TestClientGo(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	dc, err := dynamic.NewForConfig(h.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	c := dc.Resource(configMaps).Namespace("default")
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"generateName": "life-", "labels": map[string]any{"a": "b"}},
		"data":     map[string]any{"k": "1"},
	}}
	made, err := c.Create(ctx, obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := made.GetName()
	if !strings.HasPrefix(name, "life-") || len(name) != len("life-")+5 {
		t.Errorf("generated the name %q", name)
	}
	if made.GetUID() == "" || made.GetResourceVersion() == "" || made.GetCreationTimestamp() == (metav1.Time{}) {
		t.Errorf("metadata is not filled in: %v", made.Object["metadata"])
	}
	same, err := c.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if same.GetResourceVersion() != made.GetResourceVersion() {
		t.Error("an update that changes nothing was written")
	}
	if _, err := c.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"k":"2"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update: got %v, want a conflict", err)
	}
	if _, err := c.Patch(ctx, name, types.JSONPatchType, []byte(`[{"op":"add","path":"/data/l","value":"3"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"k": "2", "l": "3"}, got.Object["data"]); diff != "" {
		t.Error(diff)
	}
	list, err := c.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].GetKind() != "ConfigMap" {
		t.Errorf("listed %v", list.Items)
	}
	if err := c.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after delete: got %v, want not found", err)
	}
}

func TestDryRun(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	before := h.Store.Revision()
	const cms = "/api/v1/namespaces/default/configmaps"
	got := decode[corev1.ConfigMap](t, w.want(201, "POST", cms+"?dryRun=All", toJSON(t, configMap("a"))))
	if got.UID == "" || got.ResourceVersion != "" {
		t.Errorf("a dry run shows uid %q and resourceVersion %q", got.UID, got.ResourceVersion)
	}
	if h.Store.Revision() != before {
		t.Error("a dry run wrote")
	}
	w.want(201, "POST", cms, toJSON(t, configMap("a")))
	before = h.Store.Revision()
	w.want(409, "POST", cms+"?dryRun=All", toJSON(t, configMap("a")))
	w.want(200, "PUT", cms+"/a?dryRun=All", toJSON(t, configMap("a", "k", "v")))
	w.want(200, "DELETE", cms+"/a?dryRun=All", "")
	w.want(200, "DELETE", cms+"/a", `{"dryRun":["All"]}`)
	if h.Store.Revision() != before {
		t.Error("a dry run wrote")
	}
}

func TestFieldValidationWarns(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	resp, _ := w.do("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"},"dada":{}}`)
	if got, want := resp.Header.Get("Warning"), `299 - "unknown field \"dada\""`; got != want {
		t.Errorf("got the warning %s, want %s", got, want)
	}
	resp, _ = w.do("POST", "/api/v1/namespaces/default/configmaps?fieldValidation=Ignore", `{"metadata":{"name":"b"},"dada":{}}`)
	if got := resp.Header.Get("Warning"); got != "" || resp.StatusCode != 201 {
		t.Errorf("got %d and the warning %s", resp.StatusCode, got)
	}
	for _, pt := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		resp, _ = w.do("PATCH", "/api/v1/namespaces/default/configmaps/a", `{"dada":{}}`, "Content-Type: "+string(pt))
		if got, want := resp.Header.Get("Warning"), `299 - "unknown field \"dada\""`; got != want || resp.StatusCode != 200 {
			t.Errorf("%s: got %d and the warning %s, want %s", pt, resp.StatusCode, got, want)
		}
		w.want(422, "PATCH", "/api/v1/namespaces/default/configmaps/a?fieldValidation=Strict", `{"dada":{}}`, "Content-Type: "+string(pt))
	}
}

// TestConcurrentUpdates: every increment of many writers counts, whether they
// retry on conflicts or patch without a resourceVersion.
func TestConcurrentUpdates(t *testing.T) {
	h := apitest.New(t, apitest.Options{})
	c := h.Client("tester")
	ctx := context.Background()
	if _, err := c.Create(ctx, configMaps, configMap("counter", "n", "0")); err != nil {
		t.Fatal(err)
	}
	const workers, each = 8, 20
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				if _, err := c.Patch(ctx, configMaps, "default", "counter", types.MergePatchType,
					fmt.Appendf(nil, `{"data":{"w%d-%d":"x"}}`, w, i)); err != nil {
					t.Errorf("patch: %v", err)
				}
				for {
					obj, err := c.Get(ctx, configMaps, "default", "counter")
					if err != nil {
						t.Error(err)
						return
					}
					cm := obj.DeepCopyObject().(*corev1.ConfigMap)
					n := 0
					fmt.Sscan(cm.Data["n"], &n)
					cm.Data["n"] = fmt.Sprint(n + 1)
					_, err = c.Update(ctx, configMaps, cm)
					if err == nil {
						break
					}
					if !apierrors.IsConflict(err) {
						t.Errorf("update: %v", err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	obj, err := c.Get(ctx, configMaps, "default", "counter")
	if err != nil {
		t.Fatal(err)
	}
	data := obj.(*corev1.ConfigMap).Data
	if data["n"] != fmt.Sprint(workers*each) || len(data) != workers*each+1 {
		t.Errorf("counted %s with %d marks, want %d each", data["n"], len(data)-1, workers*each)
	}
}

func TestStatusAndScale(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	const path = "/apis/apps/v1/namespaces/default/deployments"
	d := decode[appsv1.Deployment](t, w.want(201, "POST", path, `{"metadata":{"name":"d"},"spec":{"replicas":2,
		"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}},
		"status":{"replicas":7}}`))
	if d.Generation != 1 || d.Status.Replicas != 0 {
		t.Errorf("created with generation %d and status.replicas %d", d.Generation, d.Status.Replicas)
	}
	d = decode[appsv1.Deployment](t, w.want(200, "PATCH", path+"/d/status", `{"status":{"replicas":2},"spec":{"replicas":9}}`, "Content-Type: application/merge-patch+json"))
	if d.Generation != 1 || d.Status.Replicas != 2 || *d.Spec.Replicas != 2 {
		t.Errorf("status patch: generation %d, status.replicas %d, spec.replicas %d", d.Generation, d.Status.Replicas, *d.Spec.Replicas)
	}
	scale := w.want(200, "GET", path+"/d/scale", "")
	if !strings.Contains(scale, `"kind":"Scale","apiVersion":"autoscaling/v1"`) || !strings.Contains(scale, `"spec":{"replicas":2}`) {
		t.Errorf("scale is %s", scale)
	}
	scale = w.want(200, "PATCH", path+"/d/scale", `{"spec":{"replicas":5}}`, "Content-Type: application/merge-patch+json")
	if !strings.Contains(scale, `"spec":{"replicas":5}`) {
		t.Errorf("scale became %s", scale)
	}
	d = decode[appsv1.Deployment](t, w.want(200, "GET", path+"/d", ""))
	if d.Generation != 2 || *d.Spec.Replicas != 5 {
		t.Errorf("after scale: generation %d, replicas %d", d.Generation, *d.Spec.Replicas)
	}
	w.want(409, "PUT", path+"/d/scale", `{"metadata":{"name":"d","namespace":"default","resourceVersion":"1"},"spec":{"replicas":6}}`)
	w.want(200, "PUT", path+"/d/scale", `{"metadata":{"name":"d","namespace":"default"},"spec":{"replicas":6}}`)
	w.want(405, "DELETE", path+"/d/scale", "")
}

// TestGeneratedNamespace: what is made of a name is made of a generated one too.
func TestGeneratedNamespace(t *testing.T) {
	h := apitest.New(t, apitest.Options{})
	ns := create(t, h.Client("tester"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}})
	if got := ns.GetLabels()[corev1.LabelMetadataName]; got != ns.GetName() {
		t.Errorf("namespace %s has the label %q", ns.GetName(), got)
	}
}
