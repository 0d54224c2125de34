package apiserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

func namesOf(objs []client.Object) []string {
	var out []string
	for _, obj := range objs {
		out = append(out, obj.GetName())
	}
	slices.Sort(out)
	return out
}

func synced(t *testing.T, v client.View) client.View {
	t.Helper()
	if err := v.WaitSynced(context.Background()); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestViewsAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		if c.View(pods, client.ViewOptions{Namespace: "a"}) != h.Client("other").View(pods, client.ViewOptions{Namespace: "a"}) {
			t.Error("views with equal options are two")
		}
		if c.View(pods, client.ViewOptions{}) == c.View(pods, client.ViewOptions{Metadata: true}) {
			t.Error("views with different options are one")
		}
	})
}

// TestViewSelects: a view with a selector shows what matches, and its
// handlers are told when that begins and ends.
func TestViewSelects(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		create(t, c, pod("there", "n1"))
		v := synced(t, c.View(pods, client.ViewOptions{FieldSelector: "spec.nodeName=n1"}))
		var told []string
		remove := v.Handle(func(old, new client.Object) {
			switch {
			case old == nil:
				told = append(told, "+"+new.GetName())
			case new == nil:
				told = append(told, "-"+old.GetName())
			default:
				told = append(told, "~"+new.GetName())
			}
		})
		synctest.Wait() // Until then a handler that is new is told of what is there, in any order.
		create(t, c, pod("waits", ""))
		create(t, c, pod("elsewhere", "n2"))
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "waits", Namespace: "default"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
		if _, err := c.Create(context.Background(), pods, b, "binding"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"there", "waits"}, namesOf(v.List(""))); diff != "" {
			t.Error(diff)
		}
		if v.Get("default", "elsewhere") != nil || v.Get("default", "waits") == nil {
			t.Error("Get does not heed the selector")
		}
		zero := int64(0)
		if err := c.Delete(context.Background(), pods, "default", "there", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"+there", "+waits", "-there"}, told); diff != "" {
			t.Error(diff)
		}
		remove()
		create(t, c, pod("late", "n1"))
		synctest.Wait()
		if len(told) != 3 {
			t.Errorf("told %q after the handler was removed", told)
		}
	})
}

func TestMetadataView(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		create(t, c, labelled("a", "x"))
		v := synced(t, c.View(configMaps, client.ViewOptions{Metadata: true}))
		got, ok := v.Get("default", "a").(*metav1.PartialObjectMetadata)
		if !ok || got.Labels["l"] != "x" {
			t.Errorf("got %+v", v.Get("default", "a"))
		}
	})
}

// TestViewOfWrites: after WaitFor a view, its indexes and its selectors show
// the write.
func TestViewOfWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		ctx := context.Background()
		byLabel := func(obj client.Object) []string { return []string{obj.GetLabels()["l"]} }
		all := c.View(configMaps, client.ViewOptions{})
		all.Index("label", byLabel)
		synced(t, all)
		some := synced(t, c.View(configMaps, client.ViewOptions{LabelSelector: "l=x"}))
		r := rand.New(rand.NewPCG(1, 2))
		want := map[string]string{}
		for range 300 {
			name, value := fmt.Sprintf("cm-%d", r.IntN(20)), string(rune('w'+r.IntN(4)))
			var rv string
			switch _, there := want[name]; {
			case !there:
				rv = create(t, c, labelled(name, value)).GetResourceVersion()
				want[name] = value
			case r.IntN(3) == 0:
				if err := c.Delete(ctx, configMaps, "default", name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				rv = fmt.Sprint(h.Store.Revision())
				delete(want, name)
			default:
				got, err := c.Update(ctx, configMaps, labelled(name, value))
				if err != nil {
					t.Fatal(err)
				}
				rv = got.GetResourceVersion()
				want[name] = value
			}
			if err := all.WaitFor(ctx, rv); err != nil {
				t.Fatal(err)
			}
			var wantX []string
			for name, value := range want {
				if value == "x" {
					wantX = append(wantX, name)
				}
			}
			slices.Sort(wantX)
			if diff := cmp.Diff(wantX, namesOf(all.ByIndex("label", "x"))); diff != "" {
				t.Fatalf("index: %s", diff)
			}
			if diff := cmp.Diff(wantX, namesOf(some.List("default"))); diff != "" {
				t.Fatalf("selector: %s", diff)
			}
			if len(all.List("")) != len(want) {
				t.Fatalf("list has %d, want %d", len(all.List("")), len(want))
			}
		}
		late := c.View(configMaps, client.ViewOptions{})
		late.Index("name", func(obj client.Object) []string { return []string{obj.GetName()} })
		for name := range want {
			if got := late.ByIndex("name", name); len(got) != 1 {
				t.Errorf("a late index finds %d of %s", len(got), name)
			}
		}
	})
}

// TestHandlersOfChanges: a handler sees each object's states in order and ends
// with what is there, whenever it was added.
func TestHandlersOfChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		ctx := context.Background()
		v := c.View(configMaps, client.ViewOptions{})
		type picture map[string]string
		var pictures []picture
		handle := func() {
			p := picture{}
			pictures = append(pictures, p)
			v.Handle(func(old, new client.Object) {
				if new == nil {
					delete(p, old.GetName())
					return
				}
				p[new.GetName()] = new.(*corev1.ConfigMap).Data["n"]
			})
		}
		r := rand.New(rand.NewPCG(3, 4))
		want := picture{}
		for i := range 200 {
			if i%50 == 0 {
				handle()
			}
			name, value := fmt.Sprintf("cm-%d", r.IntN(10)), fmt.Sprint(i)
			if _, there := want[name]; !there {
				create(t, c, configMap(name, "n", value))
			} else if r.IntN(3) == 0 {
				if err := c.Delete(ctx, configMaps, "default", name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				delete(want, name)
				continue
			} else if _, err := c.Update(ctx, configMaps, configMap(name, "n", value)); err != nil {
				t.Fatal(err)
			}
			want[name] = value
		}
		synctest.Wait()
		for i, p := range pictures {
			if diff := cmp.Diff(want, p); diff != "" {
				t.Errorf("handler %d: %s", i, diff)
			}
		}
	})
}
