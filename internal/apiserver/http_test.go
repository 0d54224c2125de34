package apiserver_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver"
	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// byHeader authenticates whom the header X-User names.
type byHeader struct{}

func (byHeader) Authenticate(r *http.Request) (*authn.User, error) {
	switch name := r.Header.Get("X-User"); name {
	case "":
		return nil, nil
	case "forged":
		return nil, errors.New("forged")
	default:
		return &authn.User{Name: name}, nil
	}
}

// readers may only read.
type readers struct{}

func (readers) Authorize(_ context.Context, a *authz.Attributes) (bool, string) {
	switch {
	case a.User.Name == authn.Anonymous:
		return false, ""
	case a.User.Name == "reader":
		return a.Verb == "get" || a.Verb == "list" && a.Name == "mine", "readers only read"
	}
	return true, ""
}

func TestWhoMayDoWhat(t *testing.T) {
	var mu sync.Mutex
	var records []apiserver.RequestRecord
	h := apitest.New(t, apitest.Options{HTTP: true, Authenticators: []authn.Authenticator{byHeader{}}, Authorizer: readers{},
		Paths: map[string]http.Handler{
			"/hello": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "hello "+apiserver.UserFrom(r.Context()).Name)
			}),
			"/tree/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "in the tree") }),
		},
		Subresources: map[string]apiserver.SubresourceHandler{
			"pods/log": func(w http.ResponseWriter, r *http.Request, a *authz.Attributes) {
				io.WriteString(w, "log of "+a.Namespace+"/"+a.Name)
			},
			"tokenreviews.authentication.k8s.io": func(w http.ResponseWriter, r *http.Request, a *authz.Attributes) {
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, "reviewed")
			},
		},
		RequestLog: func(r apiserver.RequestRecord) {
			mu.Lock()
			defer mu.Unlock()
			records = append(records, r)
		},
	})
	w := newWeb(t, h)
	for _, tc := range []struct {
		user, method, path, body string
		code                     int
		want                     string
	}{
		{"forged", "GET", cmPath, "", 401, `"reason":"Unauthorized"`},
		{"", "GET", cmPath, "", 403, `configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"`},
		{"", "GET", "/hello", "", 403, `forbidden: User \"system:anonymous\" cannot get path \"/hello\"`},
		{"reader", "GET", "/hello", "", 200, "hello reader"},
		{"reader", "GET", "/tree/of/life", "", 200, "in the tree"},
		{"reader", "POST", cmPath, `{"metadata":{"name":"a"}}`, 403, `readers only read`},
		{"reader", "GET", cmPath, "", 403, `cannot list`},
		{"reader", "GET", cmPath + "?fieldSelector=metadata.name%3Dmine", "", 200, `"items":[]`},
		{"reader", "PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale", "{}", 403,
			`deployments.apps \"d\" is forbidden: User \"reader\" cannot patch resource \"deployments/scale\" in API group \"apps\" in the namespace \"default\"`},
		{"reader", "DELETE", "/api/v1/nodes/n", "", 403, `cannot delete resource \"nodes\" in API group \"\" at the cluster scope`},
		{"writer", "POST", cmPath, `{"metadata":{"name":"a"}}`, 201, `"name":"a"`},
		{"reader", "GET", "/api/v1/namespaces/default/pods/p/log", "", 200, "log of default/p"},
		{"writer", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", "{}", 201, "reviewed"},
	} {
		t.Run(tc.user+" "+tc.method+" "+tc.path, func(t *testing.T) {
			w := &web{t: t, client: w.client, url: w.url}
			if got := w.want(tc.code, tc.method, tc.path, tc.body, "X-User: "+tc.user); !strings.Contains(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	mu.Lock()
	defer mu.Unlock()
	found := false
	for _, r := range records {
		if r.User == "writer" && r.Resource == "configmaps" {
			found = true
			if r.Verb != "create" || r.Code != 201 || r.Namespace != "default" || r.InProcess || r.Method != "POST" || r.Bytes == 0 {
				t.Errorf("logged %+v", r)
			}
		}
	}
	if !found {
		t.Errorf("the creation is not in the log: %+v", records)
	}
}

// TestGzip: long answers are compressed for whom accepts it.
func TestGzip(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	c := h.Client("tester")
	for i := range 30 {
		create(t, c, configMap(fmt.Sprintf("cm-%d", i), "k", strings.Repeat("x", 10<<10)))
	}
	plain := w.want(200, "GET", cmPath, "", "Accept-Encoding: identity")
	resp, packed := w.do("GET", cmPath, "", "Accept-Encoding: gzip")
	if resp.Header.Get("Content-Encoding") != "gzip" || len(packed) > len(plain)/10 {
		t.Fatalf("got %d bytes of %q for %d", len(packed), resp.Header.Get("Content-Encoding"), len(plain))
	}
	zr, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	again, err := io.ReadAll(zr)
	if err != nil || string(again) != plain {
		t.Errorf("unpacked %d bytes, want %d: %v", len(again), len(plain), err)
	}
	if resp, _ := w.do("GET", cmPath+"/cm-1", "", "Accept-Encoding: gzip"); resp.Header.Get("Content-Encoding") != "" {
		t.Error("a short answer is compressed")
	}
}

// TestTwoGroups: one event is served in both of its groups.
func TestTwoGroups(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", "/api/v1/namespaces/default/events", `{"metadata":{"name":"e"},"message":"hello","reason":"R","type":"Normal",
		"involvedObject":{"kind":"Pod","name":"p","namespace":"default"},"source":{"component":"c"}}`)
	for path, want := range map[string]string{
		"/api/v1/namespaces/default/events/e":                `"kind":"Event","apiVersion":"v1"`,
		"/apis/events.k8s.io/v1/namespaces/default/events/e": `"kind":"Event","apiVersion":"events.k8s.io/v1"`,
	} {
		got := w.want(200, "GET", path, "")
		if !strings.Contains(got, want) || !strings.Contains(got, "hello") {
			t.Errorf("%s: got %s", path, got)
		}
	}
	got := w.want(200, "GET", "/apis/events.k8s.io/v1/events", "")
	if !strings.Contains(got, `"kind":"EventList","apiVersion":"events.k8s.io/v1"`) || !strings.Contains(got, `"note":"hello"`) {
		t.Errorf("got %s", got)
	}
}

// TestStrategicMerge: lists with a merge key are merged by it, and directives
// are heeded.
func TestStrategicMerge(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	const path = "/apis/apps/v1/namespaces/default/deployments"
	w.want(201, "POST", path, `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"one","image":"i"},{"name":"two","image":"i"}]}}}}`)
	patch := func(body string) string {
		return w.want(200, "PATCH", path+"/d", body, "Content-Type: application/strategic-merge-patch+json")
	}
	got := patch(`{"spec":{"template":{"spec":{"containers":[{"name":"two","image":"j"},{"name":"three","image":"k"}]}}}}`)
	for _, want := range []string{`"name":"one","image":"i"`, `"name":"two","image":"j"`, `"name":"three","image":"k"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	got = patch(`{"spec":{"template":{"spec":{"containers":[{"name":"two","$patch":"delete"}]}}}}`)
	if strings.Contains(got, `"name":"two"`) {
		t.Errorf("two is still in %s", got)
	}
	rv := decode[metav1.PartialObjectMetadata](t, got).ResourceVersion
	if again := decode[metav1.PartialObjectMetadata](t, patch(`{"metadata":{"labels":null}}`)); again.ResourceVersion != rv {
		t.Error("a patch that changes nothing was written")
	}
}

// TestNodeWatch: a watch of one node's pods sees them come and go.
func TestNodeWatch(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	c := h.Client("tester")
	start := h.Store.Revision()
	create(t, c, pod("a", "n1"))
	create(t, c, pod("b", "n2"))
	create(t, c, pod("c", ""))
	if _, err := c.Create(context.Background(), pods, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}, "binding"); err != nil {
		t.Fatal(err)
	}
	body := w.want(200, "GET", fmt.Sprintf("/api/v1/pods?watch=1&timeoutSeconds=1&fieldSelector=spec.nodeName%%3Dn1&resourceVersion=%d", start), "")
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"name":"a"`) || !strings.Contains(lines[1], `"type":"ADDED"`) || !strings.Contains(lines[1], `"name":"c"`) {
		t.Errorf("got %s", body)
	}
}
