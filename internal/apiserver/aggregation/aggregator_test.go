package aggregation_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/aggregation"
	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/client"
)

// extension is a server behind a service; it says who asked.
func extension(t *testing.T) (port int32) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/openapi/v3":
			io.WriteString(w, `{"paths":{"apis/metrics.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/metrics.example.com/v1?hash=1"}}}`)
			return
		case "/openapi/v3/apis/metrics.example.com/v1":
			io.WriteString(w, `{"openapi":"3.0.0","paths":{}}`)
			return
		case "/openapi/v2":
			io.WriteString(w, `{"swagger":"2.0","paths":{}}`)
			return
		case "/apis/metrics.example.com/v1":
			json.NewEncoder(w).Encode(&metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.example.com/v1",
				APIResources: []metav1.APIResource{{Name: "gauges", Kind: "Gauge", Verbs: metav1.Verbs{"get"}}},
			})
			return
		}
		caller := ""
		if len(r.TLS.PeerCertificates) > 0 {
			caller = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		json.NewEncoder(w).Encode(map[string]any{
			"path": r.URL.Path, "caller": caller, "user": r.Header.Get("X-Remote-User"), "groups": r.Header.Values("X-Remote-Group"),
			"extra": r.Header.Get("X-Remote-Extra-Reason"), "authorization": r.Header.Get("Authorization"),
		})
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

type fixed struct{}

func (fixed) Authenticate(*http.Request) (*authn.User, error) {
	return &authn.User{Name: "jane", Groups: []string{"a", "b"}, Extra: map[string][]string{"reason": {"why"}}}, nil
}

// TestRoute follows an APIService from nothing to a server that answers, and to
// one that is no longer there.
func TestRoute(t *testing.T) {
	var agg atomic.Pointer[aggregation.Aggregator]
	h := apitest.New(t, apitest.Options{
		HTTP: true, Authenticators: []authn.Authenticator{fixed{}},
		Extension: func(group, version string) http.Handler {
			if a := agg.Load(); a != nil {
				return a.Extension(group, version)
			}
			return nil
		},
	})
	c := h.Client("aggregator")
	a, err := aggregation.New(aggregation.Config{Client: c, Kinds: h.Server.Kinds, ClientCA: []byte("the authority")})
	if err != nil {
		t.Fatal(err)
	}
	agg.Store(a)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); a.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })

	port := extension(t)
	watch, err := c.Watch(ctx, aggregation.APIServices, "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	// until waits for a condition of an APIService.
	until := func(name string, status apiregistrationv1.ConditionStatus, reason string) {
		t.Helper()
		for ev := range watch.ResultChan() {
			s := ev.Object.(*apiregistrationv1.APIService)
			for _, cond := range s.Status.Conditions {
				if s.Name == name && cond.Status == status && cond.Reason == reason {
					return
				}
			}
		}
		t.Fatalf("%s never was %s (%s)", name, status, reason)
	}
	until("v1.apps", apiregistrationv1.ConditionTrue, "Local")

	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.metrics.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "metrics.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 100, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "metrics", Port: &port},
		},
	}
	if _, err := c.Create(ctx, aggregation.APIServices, service); err != nil {
		t.Fatal(err)
	}
	until(service.Name, apiregistrationv1.ConditionFalse, "ServiceNotFound")
	code, _ := get(t, h, "/apis/metrics.example.com/v1/gauges/one")
	if code != http.StatusServiceUnavailable {
		t.Errorf("a dead server is answered with %d, want 503", code)
	}

	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "metrics"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
	if _, err := c.Create(ctx, client.Services, svc); err != nil {
		t.Fatal(err)
	}
	until(service.Name, apiregistrationv1.ConditionTrue, "Passed")
	code, body := get(t, h, "/apis/metrics.example.com/v1/gauges/one")
	want := map[string]any{
		"path": "/apis/metrics.example.com/v1/gauges/one", "caller": "front-proxy-client", "user": "jane",
		"groups": []any{"a", "b"}, "extra": "why", "authorization": "",
	}
	if diff := cmp.Diff(want, body); diff != "" || code != http.StatusOK {
		t.Errorf("answer %d (-want +got):\n%s", code, diff)
	}
	remote := a.Remote()
	if len(remote) != 1 || !remote[0].Current || remote[0].Resources == nil || remote[0].Resources.APIResources[0].Name != "gauges" {
		t.Errorf("discovery is told of %+v", remote)
	}
	said := a.Described()
	if len(said) != 1 || string(said[0].V3) != `{"openapi":"3.0.0","paths":{}}` || said[0].Hash == "" || string(said[0].V2) != `{"swagger":"2.0","paths":{}}` {
		t.Errorf("it is described as %+v", said)
	}
	if err := c.Delete(ctx, client.Services, "default", svc.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Patch(ctx, aggregation.APIServices, "", service.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"look":"again"}}}`)); err != nil {
		t.Fatal(err)
	}
	until(service.Name, apiregistrationv1.ConditionFalse, "ServiceNotFound")
}

// gauges is built in.
type gauges struct{}

func (gauges) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	json.NewEncoder(w).Encode(map[string]any{"by": "us"})
}

func (gauges) Resources() []metav1.APIResource {
	return []metav1.APIResource{{Name: "gauges", Kind: "Gauge", Verbs: metav1.Verbs{"get", "list"}}}
}

// What is built in has no APIService. One that somebody brings takes its place,
// whether its server answers or not, and gives it back.
func TestBuiltin(t *testing.T) {
	h := apitest.New(t, apitest.Options{})
	c := h.Client("aggregator")
	gv := schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}
	a, err := aggregation.New(aggregation.Config{Client: c, Kinds: h.Server.Kinds, Builtin: map[schema.GroupVersion]aggregation.Builtin{gv: gauges{}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); a.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	built := func() bool { return a.Extension(gv.Group, gv.Version) == http.Handler(gauges{}) }
	if remote := a.Remote(); !built() || len(remote) != 1 || !remote[0].Current || remote[0].Resources.APIResources[0].Name != "gauges" {
		t.Fatalf("at first %+v", remote)
	}
	if a.Extension(gv.Group, "v2") != nil {
		t.Error("another version is served")
	}
	watch, err := c.Watch(ctx, aggregation.APIServices, "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.metrics.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 100, VersionPriority: 100, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "metrics"},
		},
	}
	if _, err := c.Create(ctx, aggregation.APIServices, service); err != nil {
		t.Fatal(err)
	}
	for ev := range watch.ResultChan() {
		if s := ev.Object.(*apiregistrationv1.APIService); s.Name == service.Name && len(s.Status.Conditions) > 0 {
			break
		}
	}
	if remote := a.Remote(); built() || len(remote) != 1 || remote[0].Current {
		t.Errorf("beside another's server: %+v", remote)
	}
	before := a.Version()
	if err := c.Delete(ctx, aggregation.APIServices, "", service.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for a.Version() == before { // the route goes a moment after the object
		runtime.Gosched()
	}
	if remote := a.Remote(); !built() || !remote[0].Current {
		t.Errorf("after it went: %+v", remote)
	}
}

func get(t *testing.T, h *apitest.Harness, path string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, h.HTTP.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Remote-User", "somebody else")
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := h.HTTP.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Errorf("%s: %s", path, data)
	}
	return resp.StatusCode, out
}
