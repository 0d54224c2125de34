package apiserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// TestFinalizers: an object with finalizers stays, marked, until they are gone.
func TestFinalizers(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		ctx := context.Background()
		cm := configMap("a")
		cm.Finalizers = []string{"example.com/a", "example.com/b"}
		create(t, c, cm)
		s := follow(t, c, metav1.ListOptions{})
		s.want("ADDED a")
		if err := c.Delete(ctx, configMaps, "default", "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.want("MODIFIED a")
		got, err := c.Get(ctx, configMaps, "default", "a")
		if err != nil {
			t.Fatal(err)
		}
		if got.GetDeletionTimestamp() == nil || *got.GetDeletionGracePeriodSeconds() != 0 {
			t.Errorf("not marked: %+v", got)
		}
		if err := c.Delete(ctx, configMaps, "default", "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.want() // a second deletion changes nothing
		if _, err := c.Create(ctx, configMaps, cm); !apierrors.IsAlreadyExists(err) ||
			err.Error() != `object is being deleted: configmaps "a" already exists` {
			t.Errorf("create: got %v", err)
		}
		_, err = c.Patch(ctx, configMaps, "default", "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/a","example.com/new"]}}`))
		if !apierrors.IsInvalid(err) {
			t.Errorf("a new finalizer on a deleted object: got %v, want invalid", err)
		}
		if _, err = c.Patch(ctx, configMaps, "default", "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/a"]}}`)); err != nil {
			t.Fatal(err)
		}
		s.want("MODIFIED a")
		if _, err = c.Patch(ctx, configMaps, "default", "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)); err != nil {
			t.Fatal(err)
		}
		s.want("DELETED a")
	})
}

func TestPropagation(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		ctx := context.Background()
		yes, no := true, false
		orphan, foreground, background := metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground
		for _, tc := range []struct {
			name string
			had  []string
			opts metav1.DeleteOptions
			want []string // nil: it goes
		}{
			{"default", nil, metav1.DeleteOptions{}, nil},
			{"background", nil, metav1.DeleteOptions{PropagationPolicy: &background}, nil},
			{"orphan", nil, metav1.DeleteOptions{PropagationPolicy: &orphan}, []string{"orphan"}},
			{"foreground", nil, metav1.DeleteOptions{PropagationPolicy: &foreground}, []string{"foregroundDeletion"}},
			{"orphanDependents", nil, metav1.DeleteOptions{OrphanDependents: &yes}, []string{"orphan"}},
			{"not orphanDependents", nil, metav1.DeleteOptions{OrphanDependents: &no}, nil},
			{"default keeps orphan", []string{"orphan"}, metav1.DeleteOptions{}, []string{"orphan"}},
			{"background overrides orphan", []string{"orphan"}, metav1.DeleteOptions{PropagationPolicy: &background}, nil},
			{"foreground overrides orphan", []string{"orphan"}, metav1.DeleteOptions{PropagationPolicy: &foreground}, []string{"foregroundDeletion"}},
			{"others stay", []string{"example.com/a"}, metav1.DeleteOptions{PropagationPolicy: &foreground}, []string{"example.com/a", "foregroundDeletion"}},
		} {
			cm := configMap("a")
			cm.Finalizers = tc.had
			create(t, c, cm)
			if err := c.Delete(ctx, configMaps, "default", "a", tc.opts); err != nil {
				t.Fatal(err)
			}
			var got []string
			if obj, err := c.Get(ctx, configMaps, "default", "a"); err == nil {
				got = obj.GetFinalizers()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: finalizers: %s", tc.name, diff)
			}
			c.Patch(ctx, configMaps, "default", "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		}
	})
}

// TestNamespaceLife: a namespace ends only when spec.finalizers is empty.
func TestNamespaceLife(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		ctx := context.Background()
		ns := create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}).(*corev1.Namespace)
		if ns.Status.Phase != corev1.NamespaceActive || len(ns.Spec.Finalizers) != 1 {
			t.Fatalf("created %+v", ns)
		}
		if err := c.Delete(ctx, namespaces, "", "n", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := c.Get(ctx, namespaces, "", "n")
		if err != nil {
			t.Fatal(err)
		}
		ns = got.DeepCopyObject().(*corev1.Namespace)
		if ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil {
			t.Fatalf("deleted: %+v", ns)
		}
		ns.Spec.Finalizers = nil
		if _, err := c.Update(ctx, namespaces, ns, "finalize"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(ctx, namespaces, "", "n"); !apierrors.IsNotFound(err) {
			t.Errorf("after finalize: got %v, want not found", err)
		}
	})
}

func TestDeleteCollection(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	c := h.Client("tester")
	for _, name := range []string{"a", "b", "c", "d"} {
		create(t, c, labelled(name, name))
	}
	list := decode[corev1.ConfigMapList](t, w.want(200, "DELETE", cmPath+"?labelSelector=l+in+(a,b)", ""))
	if diff := cmp.Diff([]string{"a", "b"}, names(list)); diff != "" {
		t.Error(diff)
	}
	list = decode[corev1.ConfigMapList](t, w.want(200, "GET", cmPath, ""))
	if diff := cmp.Diff([]string{"c", "d"}, names(list)); diff != "" {
		t.Error(diff)
	}
}

func TestDeleteAnswers(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", cmPath, toJSON(t, configMap("a")))
	st := decode[metav1.Status](t, w.want(200, "DELETE", cmPath+"/a", ""))
	if st.Status != "Success" || st.Details.Name != "a" || st.Details.Kind != "configmaps" || st.Details.UID == "" {
		t.Errorf("got %+v", st)
	}
	cm := configMap("b")
	cm.Finalizers = []string{"example.com/a"}
	w.want(201, "POST", cmPath, toJSON(t, cm))
	got := decode[corev1.ConfigMap](t, w.want(202, "DELETE", cmPath+"/b", `{"orphanDependents":false}`))
	if got.Kind != "ConfigMap" || got.DeletionTimestamp == nil {
		t.Errorf("got %+v", got)
	}
}

// TestPodGrace: a bound pod stays until its grace is over, which can only be
// hastened.
func TestPodGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		ctx := context.Background()
		create(t, c, pod("p", "n1"))
		seconds := func(n int64) metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: &n} }
		for _, step := range []struct {
			opts metav1.DeleteOptions
			want int64
		}{{seconds(40), 40}, {seconds(50), 40}, {metav1.DeleteOptions{}, 40}, {seconds(10), 10}} {
			if err := c.Delete(ctx, pods, "default", "p", step.opts); err != nil {
				t.Fatal(err)
			}
			got, err := c.Get(ctx, pods, "default", "p")
			if err != nil {
				t.Fatal(err)
			}
			if *got.GetDeletionGracePeriodSeconds() != step.want {
				t.Errorf("grace is %d, want %d", *got.GetDeletionGracePeriodSeconds(), step.want)
			}
			if left := time.Until(got.GetDeletionTimestamp().Time).Round(time.Second); left != time.Duration(step.want)*time.Second {
				t.Errorf("goes in %v, want %d s", left, step.want)
			}
		}
		if err := c.Delete(ctx, pods, "default", "p", seconds(0)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(ctx, pods, "default", "p"); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want not found", err)
		}
	})
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}
