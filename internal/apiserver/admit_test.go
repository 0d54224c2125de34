package apiserver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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
