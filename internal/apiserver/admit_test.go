package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

// recorder notes what is asked of a plugin and what becomes of it.
type recorder struct{ notes []string }

func (r *recorder) note(s string)  { r.notes = append(r.notes, s) }
func (r *recorder) Name() string   { return "recorder" }
func (r *recorder) take() []string { out := r.notes; r.notes = nil; return out }

func (r *recorder) Admit(_ context.Context, req *admission.Request) error {
	if req.Resource.Resource != "configmaps" {
		return nil
	}
	r.note("admit " + string(req.Operation))
	req.Commit = append(req.Commit, func() { r.note("commit") })
	req.Rollback = append(req.Rollback, func() { r.note("rollback") })
	if cm, ok := req.Object.(*corev1.ConfigMap); ok {
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data["admitted"] = "yes"
	}
	return nil
}

func (r *recorder) Validate(_ context.Context, req *admission.Request) error {
	if cm, ok := req.Object.(*corev1.ConfigMap); ok && cm.Data["refuse"] != "" {
		return errors.New("refused by the recorder")
	}
	return nil
}

func TestAdmission(t *testing.T) {
	r := &recorder{}
	h := apitest.New(t, apitest.Options{Admission: []admission.Plugin{r}})
	c := h.Client("tester")
	ctx := context.Background()
	want := func(notes ...string) {
		t.Helper()
		if diff := cmp.Diff(notes, r.take()); diff != "" {
			t.Error(diff)
		}
	}
	cm := configMap("a")
	cm.Finalizers = []string{"example.com/f"}
	got := create(t, c, cm).(*corev1.ConfigMap)
	if got.Data["admitted"] != "yes" {
		t.Errorf("admission did not change the object: %v", got.Data)
	}
	want("admit CREATE", "commit")
	_, err := c.Create(ctx, configMaps, configMap("b", "refuse", "yes"))
	if !apierrors.IsForbidden(err) || err.Error() != `configmaps "b" is forbidden: refused by the recorder` {
		t.Errorf("got %v", err)
	}
	want("admit CREATE", "rollback")
	if _, err := c.Create(ctx, configMaps, configMap("a")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	want("admit CREATE", "rollback")
	if _, err := c.Patch(ctx, configMaps, "default", "a", types.MergePatchType, []byte(`{"data":{"k":"v"}}`)); err != nil {
		t.Fatal(err)
	}
	want("admit UPDATE", "commit")
	if err := c.Delete(ctx, configMaps, "default", "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("admit DELETE", "rollback") // it is held by its finalizer
	create(t, c, configMap("c"))
	r.take()
	if err := c.Delete(ctx, configMaps, "default", "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("admit DELETE", "commit")
}

// guard refuses bindings to one node and evictions of one pod, labels the pods
// of the others, and notes what else is asked about pods.
type guard struct{ recorder }

func (g *guard) Admit(_ context.Context, req *admission.Request) error {
	if req.Resource.Resource != "pods" {
		return nil
	}
	g.note(string(req.Operation) + " " + req.Subresource)
	if b, ok := req.Object.(*corev1.Binding); ok {
		b.Labels = map[string]string{"node": b.Target.Name}
		if b.Target.Name == "closed" {
			return errors.New("the node is closed")
		}
	}
	req.Commit = append(req.Commit, func() { g.note("commit") })
	req.Rollback = append(req.Rollback, func() { g.note("rollback") })
	return nil
}

func (g *guard) Validate(_ context.Context, req *admission.Request) error {
	if req.Subresource == "eviction" && req.Name == "kept" {
		return errors.New("it is kept")
	}
	return nil
}

// TestAdmissionOfPosts: what is created on an object is admitted like an
// object, and an eviction is no deletion besides.
func TestAdmissionOfPosts(t *testing.T) {
	g := &guard{}
	h := apitest.New(t, apitest.Options{Admission: []admission.Plugin{g}})
	c, ctx := h.Client("tester"), context.Background()
	for _, name := range []string{"kept", "free"} {
		create(t, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
	}
	g.take()
	bind := func(pod, node string) error {
		_, err := c.Create(ctx, pods, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default"}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}, "binding")
		return err
	}
	evict := func(pod string) error {
		_, err := c.Create(ctx, pods, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default"}}, "eviction")
		return err
	}
	want := func(err error, text string, notes ...string) {
		t.Helper()
		if got := fmt.Sprint(err); got != text {
			t.Errorf("got %s, want %s", got, text)
		}
		if diff := cmp.Diff(notes, g.take()); diff != "" {
			t.Error(diff)
		}
	}
	want(bind("free", "closed"), `pods "free" is forbidden: the node is closed`, "CREATE binding")
	want(bind("free", "open"), "<nil>", "CREATE binding", "commit")
	want(bind("free", "other"), `Operation cannot be fulfilled on pods/binding "free": pod free is already assigned to node "open"`, "CREATE binding", "rollback")
	if got, err := c.Get(ctx, pods, "default", "free"); err != nil || got.GetLabels()["node"] != "open" {
		t.Errorf("the pod has not the labels of its binding: %v, %v", got, err)
	}
	want(evict("kept"), `pods "kept" is forbidden: it is kept`, "CREATE eviction", "rollback")
	want(evict("free"), "<nil>", "CREATE eviction", "commit")
}
