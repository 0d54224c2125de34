package garbage_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/garbage"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

var (
	definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// define serves widgets in some versions; the first is stored.
func define(w *controllertest.World, versions ...string) {
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}
	d.Spec.Group, d.Spec.Scope = "example.com", apiextensionsv1.NamespaceScoped
	d.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"}
	for i, name := range versions {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		})
	}
	w.Create(definitions, d)
	synctest.Wait()
}

func widget(w *controllertest.World, name string) client.Object {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(widgets.GroupVersion().WithKind("Widget"))
	obj.SetNamespace("default")
	obj.SetName(name)
	return w.Create(widgets, obj)
}

// touch changes nothing about the definition that matters: discovery has just
// been asked when it returns, and is left alone for a while.
func touch(w *controllertest.World) {
	w.Edit(definitions, "", "widgets.example.com", func(obj client.Object) { obj.SetLabels(map[string]string{"touched": "yes"}) })
	synctest.Wait()
}

// soon fails unless the names left are want after the time within which a
// definition is followed.
func soon(w *controllertest.World, want string) {
	w.TB.Helper()
	time.Sleep(1100 * time.Millisecond)
	synctest.Wait()
	if got := names(w); got != want {
		w.TB.Errorf("soon after there are %q, want %q", got, want)
	}
}

// An owner that is gone before its kind was heard of.
func TestNewKindIsFollowedAtOnce(t *testing.T) {
	story(t, "b", func(w *controllertest.World) {
		time.Sleep(3 * time.Minute)
		define(w, "v1")
		a, b := widget(w, "a"), widget(w, "b")
		w.Create(client.ConfigMaps, owned("a", a))
		w.Create(client.ConfigMaps, owned("b", b))
		synctest.Wait()
		w.Delete(widgets, "default", "a", metav1.DeleteOptions{})
		soon(w, "b")
	})
}

// A kind that is defined anew between two looks at discovery is followed on.
func TestKindThatCameAnew(t *testing.T) {
	story(t, "", func(w *controllertest.World) {
		define(w, "v1")
		w.Create(client.ConfigMaps, owned("a", widget(w, "a")))
		time.Sleep(time.Minute)
		touch(w)
		w.Delete(definitions, "", "widgets.example.com", metav1.DeleteOptions{})
		synctest.Wait()
		define(w, "v1")
		w.Create(client.ConfigMaps, owned("b", widget(w, "b")))
		soon(w, "b")
		w.Delete(widgets, "default", "b", metav1.DeleteOptions{})
		synctest.Wait()
		if got := names(w); got != "" {
			w.TB.Errorf("after the owner there are %q", got)
		}
	})
}

// An owner stays when the version in which it was followed goes.
func TestVersionThatIsServedNoMore(t *testing.T) {
	story(t, "a b", func(w *controllertest.World) {
		define(w, "v1", "v2")
		w.Create(client.ConfigMaps, owned("a", widget(w, "a")))
		time.Sleep(time.Minute)
		touch(w)
		w.Edit(definitions, "", "widgets.example.com", func(obj client.Object) {
			obj.(*apiextensionsv1.CustomResourceDefinition).Spec.Versions[1].Served = false
		})
		synctest.Wait()
		w.Create(client.ConfigMaps, owned("b", widget(w, "b")))
	})
}

// silent is a client to whom nobody answers about some resource, or with one
// error, and who counts how often discovery is asked.
type silent struct {
	client.Interface
	about client.Resource
	err   error
	asked []time.Time // by one goroutine; read at rest
}

func (s *silent) Get(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error) {
	switch {
	case res == s.about && s.err != nil:
		return nil, s.err
	case res == s.about:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Interface.Get(ctx, res, namespace, name)
}

func (s *silent) Resources(ctx context.Context) ([]client.ResourceInfo, error) {
	s.asked = append(s.asked, time.Now())
	if len(s.asked)%2 == 0 { // every second time it hangs
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Interface.Resources(ctx)
}

// tend runs a garbage collector over a client of one's own.
func tend(t *testing.T, o apitest.Options, f func(w *controllertest.World, s *silent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, o)
		ctx, cancel := context.WithCancel(context.Background())
		s := &silent{Interface: h.Client("gc")}
		gc := garbage.New(controllers.Options{Client: s, Events: &told{}})
		ended := make(chan error)
		go func() { ended <- gc.Run(ctx) }()
		f(&controllertest.World{TB: t, Client: h.Client("tester")}, s)
		cancel()
		<-ended
	})
}

func TestSilentKindDoesNotStallTheRest(t *testing.T) {
	tend(t, apitest.Options{}, func(w *controllertest.World, s *silent) {
		s.about = client.Secrets
		for i := range 100 { // more than there are workers
			cm := owned(fmt.Sprintf("z-%02d", i))
			cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: fmt.Sprint("s-", i), UID: "gone"}}
			w.Create(client.ConfigMaps, cm)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		gone := owned("gone")
		gone.UID = "no-such-uid"
		w.Create(client.ConfigMaps, owned("a", gone))
		time.Sleep(6 * time.Second)
		if w.Get(client.ConfigMaps, "default", "a") != nil {
			w.TB.Error("others wait for who does not answer")
		}
		if w.Get(client.ConfigMaps, "default", "z-00") == nil {
			w.TB.Error("an owner is taken for absent that nobody could tell of")
		}
	})
}

// That a resource is not served says nothing about an owner, unless its view
// has told before that it is gone.
func TestNotServedIsNotAbsent(t *testing.T) {
	tend(t, apitest.Options{}, func(w *controllertest.World, s *silent) {
		_, s.err = s.Interface.Get(t.Context(), widgets, "default", "a")
		s.about = client.Secrets
		time.Sleep(time.Second)
		secret := w.Create(client.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
		w.Create(client.ConfigMaps, owned("a", secret))
		synctest.Wait()
		w.Create(client.ConfigMaps, owned("b", &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "t", UID: "never-seen"},
		}))
		w.Delete(client.Secrets, "default", "s", metav1.DeleteOptions{})
		time.Sleep(time.Minute)
		if got := names(w); got != "b" {
			w.TB.Errorf("left are %q, want b", got)
		}
	})
}

func TestDiscoveryIsNotAskedInARush(t *testing.T) {
	tend(t, apitest.Options{}, func(w *controllertest.World, s *silent) {
		for range 50 {
			define(w, "v1")
			time.Sleep(100 * time.Millisecond)
			w.Delete(definitions, "", "widgets.example.com", metav1.DeleteOptions{})
			synctest.Wait()
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for i := range s.asked[1:] {
			if pause := s.asked[i+1].Sub(s.asked[i]); pause < time.Second {
				w.TB.Errorf("asked again after %v", pause)
			}
		}
	})
}

// Without definitions kinds are followed all the same.
func TestNoDefinitions(t *testing.T) {
	some := slices.DeleteFunc(all.Kinds(), func(k *kinds.Kind) bool { return k.Resource == definitions.GroupResource() })
	tend(t, apitest.Options{Kinds: some}, func(w *controllertest.World, _ *silent) {
		w.Create(client.ConfigMaps, owned("b", w.Create(client.ConfigMaps, owned("a"))))
		synctest.Wait()
		w.Delete(client.ConfigMaps, "default", "a", metav1.DeleteOptions{})
		soon(w, "")
	})
}
