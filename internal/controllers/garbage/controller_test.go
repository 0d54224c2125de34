package garbage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/garbage"
)

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{garbage.New(o)}
}

// owned makes a ConfigMap that belongs to owners, which block on it.
func owned(name string, owners ...client.Object) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	for _, o := range owners {
		cm.OwnerReferences = append(cm.OwnerReferences, refTo(o))
	}
	return cm
}

func refTo(o client.Object) metav1.OwnerReference {
	block := true
	gvk := client.KindOf(o)
	return metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: o.GetName(), UID: o.GetUID(), BlockOwnerDeletion: &block,
	}
}

func deleting(policy metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &policy}
}

// told keeps the reasons of events.
type told struct {
	mu      sync.Mutex
	reasons []string
}

func (r *told) Event(obj client.Object, _, reason, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = append(r.reasons, client.KindOf(obj).Kind+" "+obj.GetName()+" "+reason)
}

// story runs f with a garbage collector at work. After f, and after a rest,
// the names of the ConfigMaps left must be want.
func story(t *testing.T, want string, f func(w *controllertest.World)) *told {
	t.Helper()
	events := &told{}
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Namespaces: []string{"default", "other"}})
		w := &controllertest.World{TB: t, Client: h.Client("tester")}
		ctx, cancel := context.WithCancel(context.Background())
		gc := garbage.New(controllers.Options{Client: h.Client("gc"), Events: events})
		ended := make(chan error)
		go func() { ended <- gc.Run(ctx) }()
		synctest.Wait()
		f(w)
		time.Sleep(time.Minute)
		if got := names(w); got != want {
			t.Errorf("left are %q, want %q", got, want)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	return events
}

func names(w *controllertest.World) string {
	var all []string
	for _, obj := range w.List(client.ConfigMaps) {
		name := obj.GetName()
		if obj.GetDeletionTimestamp() != nil {
			name += " (going)"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestBackground(t *testing.T) {
	story(t, "c", func(w *controllertest.World) {
		a := w.Create(client.ConfigMaps, owned("a"))
		b := w.Create(client.ConfigMaps, owned("b", a))
		for i := range 100 {
			w.Create(client.ConfigMaps, owned(fmt.Sprint("leaf-", i), b))
		}
		w.Create(client.ConfigMaps, owned("c"))
		synctest.Wait()
		start := time.Now()
		w.Delete(client.ConfigMaps, "default", "a", deleting(metav1.DeletePropagationBackground))
		synctest.Wait()
		if names(w) != "c" || time.Since(start) != 0 {
			w.TB.Errorf("after %v there are still %q", time.Since(start), names(w))
		}
	})
}

func TestForegroundWaitsForDependents(t *testing.T) {
	story(t, "", func(w *controllertest.World) {
		a := w.Create(client.ConfigMaps, owned("a"))
		b := owned("b", a)
		b.Finalizers = []string{"example.com/hold"}
		w.Create(client.ConfigMaps, b)
		synctest.Wait()
		w.Delete(client.ConfigMaps, "default", "a", deleting(metav1.DeletePropagationForeground))
		time.Sleep(time.Minute)
		if got := names(w); got != "a (going) b (going)" {
			w.TB.Errorf("while b is held there are %q", got)
		}
		w.Edit(client.ConfigMaps, "default", "b", func(obj client.Object) { obj.SetFinalizers(nil) })
	})
}

func TestForegroundGoesDeep(t *testing.T) {
	story(t, "", func(w *controllertest.World) {
		a := w.Create(client.ConfigMaps, owned("a"))
		b := w.Create(client.ConfigMaps, owned("b", a))
		w.Create(client.ConfigMaps, owned("c", b))
		w.Delete(client.ConfigMaps, "default", "a", deleting(metav1.DeletePropagationForeground))
	})
}

// In a chain whose middle is held by a finalizer the end goes, and the
// beginning stays until the middle is gone.
func TestForegroundThroughAFinalizer(t *testing.T) {
	story(t, "", func(w *controllertest.World) {
		a := w.Create(client.ConfigMaps, owned("a"))
		middle := owned("b", a)
		middle.Finalizers = []string{"example.com/hold"}
		b := w.Create(client.ConfigMaps, middle)
		w.Create(client.ConfigMaps, owned("c", b))
		synctest.Wait()
		w.Delete(client.ConfigMaps, "default", "a", deleting(metav1.DeletePropagationForeground))
		time.Sleep(time.Hour)
		if got := names(w); got != "a (going) b (going)" {
			w.TB.Errorf("while b is held there are %q", got)
		}
		w.Edit(client.ConfigMaps, "default", "b", func(obj client.Object) {
			kept := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == "example.com/hold" })
			obj.SetFinalizers(kept)
		})
	})
}

func TestForegroundCircle(t *testing.T) {
	story(t, "", func(w *controllertest.World) {
		a := w.Create(client.ConfigMaps, owned("a"))
		b := w.Create(client.ConfigMaps, owned("b", a))
		c := w.Create(client.ConfigMaps, owned("c", b))
		w.Edit(client.ConfigMaps, "default", "a", func(obj client.Object) { obj.SetOwnerReferences([]metav1.OwnerReference{refTo(c)}) })
		w.Delete(client.ConfigMaps, "default", "a", deleting(metav1.DeletePropagationForeground))
	})
}

func TestOrphan(t *testing.T) {
	story(t, "b c", func(w *controllertest.World) {
		a := w.Create(client.ConfigMaps, owned("a"))
		w.Create(client.ConfigMaps, owned("b", a))
		w.Create(client.ConfigMaps, owned("c", a))
		synctest.Wait()
		w.Delete(client.ConfigMaps, "default", "a", deleting(metav1.DeletePropagationOrphan))
		time.Sleep(time.Second)
		if refs := w.Get(client.ConfigMaps, "default", "b").GetOwnerReferences(); len(refs) != 0 {
			w.TB.Errorf("b still has %v", refs)
		}
	})
}

func TestAbsentOwnersAreCutOff(t *testing.T) {
	story(t, "a b", func(w *controllertest.World) {
		a := w.Create(client.ConfigMaps, owned("a"))
		gone := owned("gone")
		gone.UID = "no-such-uid"
		w.Create(client.ConfigMaps, owned("b", a, gone))
		w.Create(client.ConfigMaps, owned("c", gone))
		again := owned("a") // the name is there, the uid is not
		again.UID = "another"
		w.Create(client.ConfigMaps, owned("d", again))
		time.Sleep(time.Second)
		if refs := w.Get(client.ConfigMaps, "default", "b").GetOwnerReferences(); len(refs) != 1 || refs[0].UID != a.GetUID() {
			w.TB.Errorf("b has %v", refs)
		}
	})
}

func TestOwnerInAnotherNamespace(t *testing.T) {
	events := story(t, "a", func(w *controllertest.World) {
		a := owned("a")
		a.Namespace = "other"
		w.Create(client.ConfigMaps, owned("b", w.Create(client.ConfigMaps, a)))
	})
	if want := "ConfigMap b OwnerRefInvalidNamespace"; !slices.Contains(events.reasons, want) {
		t.Errorf("events are %q, want %q", events.reasons, want)
	}
}

func TestClusterScopedIsNotOwnedByNamespaced(t *testing.T) {
	events := story(t, "", func(w *controllertest.World) {
		a := owned("a")
		a.UID = types.UID("no-such-uid")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{refTo(a)}}}
		w.Create(client.Nodes, node)
		time.Sleep(time.Minute)
		if w.Get(client.Nodes, "", "n") == nil {
			w.TB.Error("the node is collected")
		}
	})
	if want := "Node n OwnerRefInvalidNamespace"; !slices.Contains(events.reasons, want) {
		t.Errorf("events are %q, want %q", events.reasons, want)
	}
}

func TestUnknownKindIsLeftAlone(t *testing.T) {
	story(t, "a", func(w *controllertest.World) {
		a := owned("a")
		a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Widget", Name: "w", UID: "w"}}
		w.Create(client.ConfigMaps, a)
	})
}

// A gap goes with the object that it is about.
func TestGapOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Namespaces: []string{"default"}})
		w := &controllertest.World{TB: t, Client: h.Client("tester")}
		gc := garbage.New(controllers.Options{Client: h.Client("gc")})
		defer controllertest.Turn(gc)()
		a := owned("a")
		a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Widget", Name: "w", UID: "w"}}
		w.Create(client.ConfigMaps, a)
		synctest.Wait()
		if gaps := gc.Gaps(); len(gaps) != 1 {
			t.Errorf("gaps: %v, want one of a", gaps)
		}
		w.Delete(client.ConfigMaps, "default", "a", metav1.DeleteOptions{})
		synctest.Wait()
		if gaps := gc.Gaps(); len(gaps) > 0 {
			t.Errorf("gaps of what is gone: %v", gaps)
		}
	})
}

// A random forest, from which random trees are felled in random ways.
func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Runs:  100,
		Loops: loops,
		Start: func(w *controllertest.World) { plant(w, 12) },
		Meanwhile: func(w *controllertest.World) {
			policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
			w.Rest(3 * time.Second)
			// One tree only: what two deletions leave depends on which comes
			// first.
			w.Delete(client.ConfigMaps, "default", fmt.Sprint("cm-", w.Rand.IntN(6)), deleting(policies[w.Rand.IntN(3)]))
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.ConfigMaps, func(obj client.Object) string {
				line := obj.GetName()
				for _, ref := range obj.GetOwnerReferences() {
					line += " <" + ref.Name
				}
				return fmt.Sprint(line, " going: ", obj.GetDeletionTimestamp() != nil, obj.GetFinalizers())
			})
		},
	})
}

func plant(w *controllertest.World, n int) {
	var made []client.Object
	for i := range n {
		var owners []client.Object
		for range w.Rand.IntN(3) {
			if i > 0 {
				if o := made[w.Rand.IntN(i)]; !slices.Contains(owners, o) {
					owners = append(owners, o)
				}
			}
		}
		made = append(made, w.Create(client.ConfigMaps, owned(fmt.Sprint("cm-", i), owners...)))
	}
}
