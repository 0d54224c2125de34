package apiserver_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// model is the API in a few lines: what a ConfigMap is, and what each verb
// makes of it.
type model struct {
	objects map[string]modelObject
	past    map[int64]map[string]modelObject
}

type modelObject struct {
	value     string
	rv        string
	finalizer bool
	deleted   bool
}

// TestModel sends random operations to the server and to the model: the
// outcomes, the lists at every revision and the story that a watch tells must
// be the same.
func TestModel(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
				runModel(t, h, c, rand.New(rand.NewPCG(seed, 77)))
			})
		})
	}
}

func runModel(t *testing.T, h *apitest.Harness, c client.Interface, r *rand.Rand) {
	ctx := context.Background()
	m := &model{objects: map[string]modelObject{}, past: map[int64]map[string]modelObject{}}
	start := h.Store.Revision()
	m.past[start] = map[string]modelObject{}
	replay := map[string]string{} // what a watch from the start makes
	w, err := c.Watch(ctx, configMaps, "default", metav1.ListOptions{ResourceVersion: strconv.FormatInt(start, 10)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	go func() {
		for ev := range w.ResultChan() {
			cm := ev.Object.(*corev1.ConfigMap)
			_, there := replay[cm.Name]
			switch ev.Type {
			case "ADDED":
				if there {
					t.Errorf("%s was added twice", cm.Name)
				}
				replay[cm.Name] = cm.ResourceVersion
			case "MODIFIED":
				if !there {
					t.Errorf("%s was modified before it was added", cm.Name)
				}
				replay[cm.Name] = cm.ResourceVersion
			case "DELETED":
				delete(replay, cm.Name)
			}
		}
	}()
	for step := range 400 {
		name := fmt.Sprintf("cm-%d", r.IntN(6))
		got := m.step(ctx, c, r, name)
		if got != "" {
			t.Fatalf("step %d, %s: %s", step, name, got)
		}
		m.past[h.Store.Revision()] = maps.Clone(m.objects)
	}
	m.compare(t, c, "")
	revisions := slices.Sorted(maps.Keys(m.past))
	for range 50 {
		rv := revisions[r.IntN(len(revisions))]
		if rv == start {
			continue
		}
		m.compareAt(t, c, rv)
	}
	synctest.Wait()
	want := map[string]string{}
	for name, o := range m.objects {
		want[name] = o.rv
	}
	if diff := cmp.Diff(want, replay); diff != "" {
		t.Errorf("the watch tells another story: %s", diff)
	}
}

// step does one thing to one object; it returns what differs.
func (m *model) step(ctx context.Context, c client.Interface, r *rand.Rand, name string) string {
	had, there := m.objects[name]
	value := fmt.Sprint(r.IntN(3))
	switch r.IntN(6) {
	case 0, 1: // create
		cm := configMap(name, "v", value)
		fin := r.IntN(3) == 0
		if fin {
			cm.Finalizers = []string{"example.com/f"}
		}
		obj, err := c.Create(ctx, configMaps, cm)
		if there {
			return want(err, apierrors.IsAlreadyExists, "already exists")
		}
		if err != nil {
			return err.Error()
		}
		m.objects[name] = modelObject{value: value, rv: obj.GetResourceVersion(), finalizer: fin}
	case 2, 3: // update, with the right revision, a wrong one or none
		cm := configMap(name, "v", value)
		if had.finalizer {
			cm.Finalizers = []string{"example.com/f"}
		}
		mode := r.IntN(3)
		switch mode {
		case 0:
			cm.ResourceVersion = had.rv
		case 1:
			cm.ResourceVersion = "2"
		}
		obj, err := c.Update(ctx, configMaps, cm)
		switch {
		case !there:
			return want(err, apierrors.IsNotFound, "not found")
		case mode == 1:
			return want(err, apierrors.IsConflict, "conflict")
		case err != nil:
			return err.Error()
		case (value == had.value) != (obj.GetResourceVersion() == had.rv):
			return fmt.Sprintf("an update from %s to %s led from revision %s to %s", had.value, value, had.rv, obj.GetResourceVersion())
		}
		had.value, had.rv = value, obj.GetResourceVersion()
		m.objects[name] = had
	case 4: // delete
		err := c.Delete(ctx, configMaps, "default", name, metav1.DeleteOptions{})
		if !there {
			return want(err, apierrors.IsNotFound, "not found")
		}
		if err != nil {
			return err.Error()
		}
		if !had.finalizer {
			delete(m.objects, name)
			return ""
		}
		obj, err := c.Get(ctx, configMaps, "default", name)
		if err != nil {
			return err.Error()
		}
		if had.deleted != (obj.GetResourceVersion() == had.rv) {
			return "a deletion of an object with finalizers was not written once"
		}
		had.deleted, had.rv = true, obj.GetResourceVersion()
		m.objects[name] = had
	case 5: // take the finalizer away
		obj, err := c.Patch(ctx, configMaps, "default", name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if !there {
			return want(err, apierrors.IsNotFound, "not found")
		}
		if err != nil {
			return err.Error()
		}
		if had.deleted {
			delete(m.objects, name)
			return ""
		}
		if had.finalizer == (obj.GetResourceVersion() == had.rv) {
			return "taking a finalizer away was not written once"
		}
		had.finalizer, had.rv = false, obj.GetResourceVersion()
		m.objects[name] = had
	}
	return ""
}

func want(err error, is func(error) bool, text string) string {
	if !is(err) {
		return fmt.Sprintf("got %v, want %s", err, text)
	}
	return ""
}

func (m *model) compare(t *testing.T, c client.Interface, rv string) {
	t.Helper()
	n, err := strconv.ParseInt(rv, 10, 64)
	want := m.objects
	opts := metav1.ListOptions{}
	if err == nil {
		want = m.past[n]
		opts = metav1.ListOptions{ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	}
	objs, _, err := c.List(context.Background(), configMaps, "default", opts)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]modelObject{}
	for _, obj := range objs {
		cm := obj.(*corev1.ConfigMap)
		got[cm.Name] = modelObject{cm.Data["v"], cm.ResourceVersion, len(cm.Finalizers) > 0, cm.DeletionTimestamp != nil}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(modelObject{})); diff != "" {
		t.Errorf("list at %q: %s", rv, diff)
	}
}

func (m *model) compareAt(t *testing.T, c client.Interface, rv int64) {
	t.Helper()
	m.compare(t, c, strconv.FormatInt(rv, 10))
}
