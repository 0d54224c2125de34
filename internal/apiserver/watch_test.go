package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// story records the events of a watch as "ADDED a", one each.
type story struct {
	t      *testing.T
	w      watch.Interface
	events []string
	last   string // resourceVersion
}

func follow(t *testing.T, c client.Interface, opts metav1.ListOptions) *story {
	t.Helper()
	w, err := c.Watch(context.Background(), configMaps, "default", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	s := &story{t: t, w: w}
	go func() {
		for ev := range w.ResultChan() {
			switch obj := ev.Object.(type) {
			case *metav1.Status:
				s.events = append(s.events, fmt.Sprintf("%s %s", ev.Type, obj.Reason))
			case client.Object:
				line := fmt.Sprintf("%s %s", ev.Type, obj.GetName())
				if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
					line += "initial-events-end"
				}
				s.events = append(s.events, line)
				s.last = obj.GetResourceVersion()
			}
		}
		s.events = append(s.events, "END")
	}()
	return s
}

// want waits until nothing moves, and compares what has come since the last
// time.
func (s *story) want(events ...string) {
	s.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(events, s.events); diff != "" {
		s.t.Errorf("events: %s", diff)
	}
	s.events = nil
}

func labelled(name, value string) *corev1.ConfigMap {
	cm := configMap(name)
	cm.Labels = map[string]string{"l": value}
	return cm
}

func inBubble(t *testing.T, f func(t *testing.T, h *apitest.Harness, c client.Interface)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		f(t, h, h.Client("tester"))
	})
}

func create(t *testing.T, c client.Interface, obj client.Object) client.Object {
	t.Helper()
	res := configMaps
	switch obj.(type) {
	case *corev1.Pod:
		res = pods
	case *corev1.Namespace:
		res = namespaces
	}
	got, err := c.Create(context.Background(), res, obj)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWatchBegins(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		a := create(t, c, configMap("a"))
		create(t, c, configMap("b"))
		yes, no := true, false
		match := metav1.ResourceVersionMatchNotOlderThan
		for _, tc := range []struct {
			name string
			opts metav1.ListOptions
			want []string
		}{
			{"unset", metav1.ListOptions{}, []string{"ADDED a", "ADDED b"}},
			{"zero", metav1.ListOptions{ResourceVersion: "0"}, []string{"ADDED a", "ADDED b"}},
			{"after a", metav1.ListOptions{ResourceVersion: a.GetResourceVersion()}, []string{"ADDED b"}},
			{"initial events", metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: match, AllowWatchBookmarks: true},
				[]string{"ADDED a", "ADDED b", "BOOKMARK initial-events-end"}},
			{"initial events not older", metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: match, AllowWatchBookmarks: true, ResourceVersion: a.GetResourceVersion()},
				[]string{"ADDED a", "ADDED b", "BOOKMARK initial-events-end"}},
			{"no initial events", metav1.ListOptions{SendInitialEvents: &no, ResourceVersionMatch: match}, nil},
			{"one name", metav1.ListOptions{FieldSelector: "metadata.name=b"}, []string{"ADDED b"}},
		} {
			t.Log(tc.name)
			s := follow(t, c, tc.opts)
			s.want(tc.want...)
			s.w.Stop()
		}
		_, err := c.Watch(context.Background(), configMaps, "default", metav1.ListOptions{
			ResourceVersion: "1000000", SendInitialEvents: &yes, ResourceVersionMatch: match})
		if !apierrors.IsTimeout(err) || !strings.HasPrefix(err.Error(), "Timeout: Too large resource version: 1000000, current: ") {
			t.Errorf("a revision in the future: got %v", err)
		}
	})
}

// TestWatchSelector: what a selector shows begins and ends with matching.
func TestWatchSelector(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		s := follow(t, c, metav1.ListOptions{LabelSelector: "l=x"})
		create(t, c, labelled("a", "x"))
		create(t, c, labelled("b", "y"))
		s.want("ADDED a")
		update := func(name, value string) {
			if _, err := c.Update(context.Background(), configMaps, labelled(name, value)); err != nil {
				t.Fatal(err)
			}
		}
		update("b", "x")
		update("a", "y")
		s.want("ADDED b", "DELETED a")
		update("a", "z")
		s.want()
		cm := labelled("b", "x")
		cm.Data = map[string]string{"k": "v"}
		if _, err := c.Update(context.Background(), configMaps, cm); err != nil {
			t.Fatal(err)
		}
		s.want("MODIFIED b")
		for _, name := range []string{"a", "b"} {
			if err := c.Delete(context.Background(), configMaps, "default", name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		s.want("DELETED b")
		if s.last != fmt.Sprint(h.Store.Revision()) {
			t.Errorf("the deletion carries resourceVersion %s, want %d", s.last, h.Store.Revision())
		}
	})
}

// TestWatchResumes ends a watch again and again and takes it up where it was:
// nothing is lost and nothing comes twice.
func TestWatchResumes(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		var got, want []string
		rv := fmt.Sprint(h.Store.Revision())
		for i := range 30 {
			name := fmt.Sprintf("cm-%02d", i)
			want = append(want, "ADDED "+name)
			if i%3 == 0 {
				s := follow(t, c, metav1.ListOptions{ResourceVersion: rv})
				create(t, c, configMap(name))
				synctest.Wait()
				s.w.Stop()
				synctest.Wait()
				got = append(got, slices.DeleteFunc(s.events, func(e string) bool { return e == "END" })...)
				rv = s.last
			} else {
				create(t, c, configMap(name))
			}
		}
		s := follow(t, c, metav1.ListOptions{ResourceVersion: rv})
		synctest.Wait()
		got = append(got, s.events...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWatchExpired(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		a := create(t, c, configMap("a"))
		create(t, c, configMap("b"))
		create(t, c, configMap("c"))
		synctest.Wait() // What the hub has not heard of it can still tell.
		if err := h.Store.Compact(context.Background(), h.Store.Revision()-1); err != nil {
			t.Fatal(err)
		}
		s := follow(t, c, metav1.ListOptions{ResourceVersion: a.GetResourceVersion()})
		s.want("ERROR Expired", "END")
	})
}

func TestWatchBookmarksAndTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		timeout := int64(150)
		s := follow(t, c, metav1.ListOptions{AllowWatchBookmarks: true, TimeoutSeconds: &timeout})
		other := configMap("elsewhere")
		other.Namespace = "kube-system"
		create(t, c, other)
		time.Sleep(70 * time.Second)
		s.want("BOOKMARK ")
		if s.last != fmt.Sprint(h.Store.Revision()) {
			t.Errorf("the bookmark says %s, want %d", s.last, h.Store.Revision())
		}
		time.Sleep(70 * time.Second)
		s.want("BOOKMARK ")
		time.Sleep(20 * time.Second)
		s.want("BOOKMARK ", "END")
	})
}

// A watch from a revision since which only other kinds have changed is as alive
// as any: it is told how far it is, and ends in its time.
func TestWatchBehindOthersEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		first := create(t, c, configMap("a"))
		create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		synctest.Wait()
		timeout := int64(5)
		s := follow(t, c, metav1.ListOptions{ResourceVersion: first.GetResourceVersion(), AllowWatchBookmarks: true, TimeoutSeconds: &timeout})
		s.want()
		time.Sleep(6 * time.Second)
		s.want("BOOKMARK ", "END")
	})
}

func TestWatchEndsWithServer(t *testing.T) {
	inBubble(t, func(t *testing.T, h *apitest.Harness, c client.Interface) {
		s := follow(t, c, metav1.ListOptions{})
		v := c.View(configMaps, client.ViewOptions{})
		v.Handle(func(old, new client.Object) {})
		if err := v.WaitSynced(context.Background()); err != nil {
			t.Fatal(err)
		}
		create(t, c, configMap("a"))
		synctest.Wait()
		if err := h.Stop(); err != nil {
			t.Fatal(err)
		}
		s.want("ADDED a", "END")
	})
}

// TestWatchHTTP reads events as bytes.
func TestWatchHTTP(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", cmPath, toJSON(t, configMap("a", "k", "v")))
	w.want(200, "DELETE", cmPath+"/a", "")
	body := w.want(200, "GET", cmPath+"?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=3", "")
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d lines, want an addition, a deletion and a bookmark:\n%s", len(lines), body)
	}
	for i, want := range []string{
		`{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"`,
		`{"type":"DELETED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"`,
		`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"5"}}}`,
	} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %s, want %s...", i, lines[i], want)
		}
	}
	body = w.want(200, "GET", cmPath+"?watch=1&timeoutSeconds=1&resourceVersion=3", "", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1")
	lines = strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) != 2 || strings.Count(body, "columnDefinitions\":[{") != 1 {
		t.Errorf("got %s", body)
	}
}

// TestWatchProtobuf reads a watch with client-go's protobuf decoder.
func TestWatchProtobuf(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	c := newRESTClient(t, h, "application/vnd.kubernetes.protobuf")
	create(t, h.Client("tester"), configMap("a", "k", "v"))
	w, err := c.Get().Namespace("default").Resource("configmaps").VersionedParams(&metav1.ListOptions{Watch: true}, metav1.ParameterCodec).Watch(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	ev := <-w.ResultChan()
	if cm, ok := ev.Object.(*corev1.ConfigMap); !ok || ev.Type != watch.Added || cm.Data["k"] != "v" {
		t.Errorf("got %+v", ev)
	}
}
