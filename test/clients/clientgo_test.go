package clients

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
)

func restConfig(t *testing.T) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

func clientset(t *testing.T, contentType string) kubernetes.Interface {
	t.Helper()
	cfg := restConfig(t)
	cfg.ContentType = contentType
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits until look finds nothing to complain about.
func eventually(t *testing.T, look func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		err := look(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestTyped: the typed client in each encoding, and apply configurations.
func TestTyped(t *testing.T) {
	for i, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf", "application/cbor"} {
		t.Run(contentType, func(t *testing.T) {
			ns, c := space(t, fmt.Sprintf("typed-%d", i)), clientset(t, contentType)
			maps := c.CoreV1().ConfigMaps(ns)
			made, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "cm-"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stale := made.DeepCopy()
			made.BinaryData = map[string][]byte{"b": {0, 255}}
			if made, err = maps.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err = maps.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("an update of what has changed: %v, want a conflict", err)
			}
			patched, err := maps.Patch(t.Context(), made.Name, types.StrategicMergePatchType, []byte(`{"data":{"c":"3"}}`), metav1.PatchOptions{})
			if err != nil || len(patched.Data) != 2 || len(patched.BinaryData["b"]) != 2 {
				t.Errorf("patched: %v, %v", patched, err)
			}
			applied, err := maps.Apply(t.Context(), applycore.ConfigMap(made.Name, ns).WithData(map[string]string{"d": "4"}), metav1.ApplyOptions{FieldManager: "typed"})
			if err != nil || len(applied.Data) != 3 {
				t.Fatalf("applied: %v, %v", applied, err)
			}
			own, err := applycore.ExtractConfigMap(applied, "typed")
			if err != nil || len(own.Data) != 1 || own.Data["d"] != "4" {
				t.Errorf("what the manager owns: %v, %v", own, err)
			}
			if _, err := maps.Apply(t.Context(), applycore.ConfigMap(made.Name, ns).WithData(map[string]string{"d": "5"}), metav1.ApplyOptions{FieldManager: "other"}); !apierrors.IsConflict(err) {
				t.Errorf("another manager's claim: %v, want a conflict", err)
			}
			if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + made.Name}); err != nil {
				t.Fatal(err)
			}
			if _, err := maps.Get(t.Context(), made.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("after the deletion: %v", err)
			}
		})
	}
}

// TestInformers: a factory's informers see the loops at work, one of typed and
// one of metadata, and lists in pages are whole.
func TestInformers(t *testing.T) {
	ns, c := space(t, "informers"), clientset(t, "application/vnd.kubernetes.protobuf")
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(ns))
	pods, sets := factory.Core().V1().Pods(), factory.Apps().V1().Deployments()
	events := make(chan string, 100)
	if _, err := sets.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { events <- "add" },
		DeleteFunc: func(o any) { events <- "delete" },
	}); err != nil {
		t.Fatal(err)
	}
	pods.Informer()
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			t.Fatalf("%v did not sync", kind)
		}
	}
	labels := map[string]string{"app": "web"}
	deployment := applyapps.Deployment("web", ns).WithSpec(applyapps.DeploymentSpec().WithReplicas(5).
		WithSelector(applymeta.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(applycore.PodTemplateSpec().WithLabels(labels).
			WithSpec(applycore.PodSpec().WithContainers(applycore.Container().WithName("web").WithImage("example.com/web:1")))))
	if _, err := c.AppsV1().Deployments(ns).Apply(t.Context(), deployment, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	if got := <-events; got != "add" {
		t.Errorf("first event %q", got)
	}
	eventually(t, func(context.Context) error {
		ready := 0
		for _, o := range pods.Informer().GetStore().List() {
			for _, cond := range o.(*corev1.Pod).Status.Conditions {
				if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready != 5 {
			return fmt.Errorf("%d pods are ready", ready)
		}
		return nil
	})
	seen, token := 0, ""
	for {
		page, err := c.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{Limit: 2, Continue: token})
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page.Items)
		if token = page.Continue; token == "" {
			break
		}
	}
	if seen != 5 {
		t.Errorf("pages held %d pods", seen)
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		scale, err := c.AppsV1().Deployments(ns).GetScale(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = 0
		_, err = c.AppsV1().Deployments(ns).UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) error {
		if n := len(pods.Informer().GetStore().List()); n != 0 {
			return fmt.Errorf("%d pods are left", n)
		}
		return nil
	})
	foreground := metav1.DeletePropagationForeground
	if err := c.AppsV1().Deployments(ns).Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	if got := <-events; got != "delete" {
		t.Errorf("last event %q", got)
	}
}

// TestDynamicAndMetadata: the clients that know no types, on a built-in and on
// a custom kind.
func TestDynamicAndMetadata(t *testing.T) {
	ns := space(t, "dynamic")
	d, err := dynamic.NewForConfig(restConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	m, err := metadata.NewForConfig(restConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	definitions := d.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.dynamic.example.com"},
		"spec": map[string]any{"group": "dynamic.example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}},
	}}
	if _, err := definitions.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		definitions.Delete(context.Background(), definition.GetName(), metav1.DeleteOptions{})
	})
	for _, kind := range []struct {
		gvr        schema.GroupVersionResource
		apiVersion string
		kind       string
		field      string
	}{
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "v1", "ConfigMap", "data"},
		{schema.GroupVersionResource{Group: "dynamic.example.com", Version: "v1", Resource: "widgets"}, "dynamic.example.com/v1", "Widget", "spec"},
	} {
		t.Run(kind.kind, func(t *testing.T) {
			objects := d.Resource(kind.gvr).Namespace(ns)
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind.apiVersion, "kind": kind.kind,
				"metadata": map[string]any{"name": "x", "labels": map[string]any{"a": "b"}}, kind.field: map[string]any{"k": "1"}}}
			eventually(t, func(ctx context.Context) error { // the definition takes a moment
				_, err := objects.Create(ctx, object, metav1.CreateOptions{})
				return err
			})
			w, err := m.Resource(kind.gvr).Namespace(ns).Watch(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			applied := object.DeepCopy()
			applied.Object[kind.field] = map[string]any{"k": "2"}
			if _, err := objects.Apply(t.Context(), "x", applied, metav1.ApplyOptions{FieldManager: "dynamic", Force: true}); err != nil {
				t.Fatal(err)
			}
			if err := objects.Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"ADDED", "MODIFIED", "DELETED"} {
				ev := <-w.ResultChan()
				o, ok := ev.Object.(*metav1.PartialObjectMetadata)
				if string(ev.Type) != want || !ok || o.Name != "x" || o.Labels["a"] != "b" {
					t.Errorf("got %s %v, want %s of the metadata", ev.Type, ev.Object, want)
				}
			}
		})
	}
}
