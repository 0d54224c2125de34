package discovery

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// upstream returns kinds that are what upstream's own documents describe, in
// no helpful order, each version as a kind of its own.
func upstream(t *testing.T) []*kinds.Kind {
	var agg apidiscovery.APIGroupDiscoveryList
	readJSON(t, "aggregated_v2.json", &agg)
	var out []*kinds.Kind
	for _, g := range agg.Items {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				k := &kinds.Kind{
					Resource: schema.GroupResource{Group: g.Name, Resource: r.Resource}, Kind: r.ResponseKind.Kind,
					Singular: r.SingularResource, ShortNames: r.ShortNames, Categories: r.Categories,
					Namespaced: r.Scope == apidiscovery.ScopeNamespace,
					Versions:   []kinds.Version{{GroupVersion: schema.GroupVersion{Group: g.Name, Version: v.Version}}},
					NoVerbs:    without(r.Verbs), Subresources: map[string]*kinds.Subresource{},
				}
				for _, s := range r.Subresources {
					sub := &kinds.Subresource{Verbs: s.Verbs}
					if rk := s.ResponseKind; rk.Kind != k.Kind || rk.Group != "" {
						sub.GroupVersionKind = schema.GroupVersionKind{Group: rk.Group, Version: rk.Version, Kind: rk.Kind}
						if rk.Version == "" {
							sub.GroupVersionKind = k.Versions[0].GroupVersion.WithKind(rk.Kind)
						}
					}
					k.Subresources[s.Subresource] = sub
				}
				out = append(out, k)
			}
		}
	}
	slices.Reverse(out)
	return out
}

func without(verbs []string) (out []string) {
	for _, v := range standard {
		if !slices.Contains(verbs, v) {
			out = append(out, v)
		}
	}
	return out
}

// legacyKinds are the core kinds as upstream's /api/v1 lists them.
func legacyKinds(t *testing.T) []*kinds.Kind {
	var list metav1.APIResourceList
	readJSON(t, "api__v1.json", &list)
	byName := map[string]*kinds.Kind{}
	var out []*kinds.Kind
	v1 := schema.GroupVersion{Version: "v1"}
	for _, r := range list.APIResources {
		name, sub, isSub := strings.Cut(r.Name, "/")
		if isSub {
			s := &kinds.Subresource{Verbs: r.Verbs}
			if r.Kind != byName[name].Kind {
				s.GroupVersionKind = schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
				if r.Version == "" {
					s.GroupVersionKind.Version = "v1"
				}
			}
			byName[name].Subresources[sub] = s
			continue
		}
		k := &kinds.Kind{
			Resource: schema.GroupResource{Resource: name}, Kind: r.Kind, Singular: r.SingularName,
			ShortNames: r.ShortNames, Categories: r.Categories, Namespaced: r.Namespaced,
			Versions: []kinds.Version{{GroupVersion: v1}}, NoVerbs: without(r.Verbs), Subresources: map[string]*kinds.Subresource{},
		}
		if r.StorageVersionHash != "" {
			k.StoragePrefix = "/registry/" + name + "/"
		}
		byName[name] = k
		out = append(out, k)
	}
	return out
}

func serve(t *testing.T, h http.Handler, path, accept string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func handler(list []*kinds.Kind) *Handler {
	return New(func() []*kinds.Kind { return list }, nil)
}

const v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// From kinds that match upstream's, upstream's own documents come out, in
// upstream's order of groups, versions and resources.
func TestAggregatedIsUpstreams(t *testing.T) {
	w := serve(t, handler(upstream(t)), "/apis", v2)
	var got, want apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	readJSON(t, "aggregated_v2.json", &want)
	want.Kind = "APIGroupDiscoveryList"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-upstream +ours):\n%s", diff)
	}
	if got, want := w.Header().Get("Content-Type"), v2; got != want {
		t.Errorf("Content-Type %q, want %q", got, want)
	}
}

func TestLegacyListIsUpstreams(t *testing.T) {
	w := serve(t, handler(legacyKinds(t)), "/api/v1", "application/json")
	var got, want metav1.APIResourceList
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	readJSON(t, "api__v1.json", &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-upstream +ours):\n%s", diff)
	}
}

func TestPaths(t *testing.T) {
	h := handler(append(upstream(t), legacyKinds(t)...))
	for _, tc := range []struct {
		path string
		code int
		has  string
	}{
		{"/api", 200, `"versions":["v1"]`},
		{"/api/", 200, `"clientCIDR":"0.0.0.0/0"`},
		{"/api/v1", 200, `"groupVersion":"v1"`},
		{"/api/v2", 404, `"message":"the server could not find the requested resource"`},
		{"/apis", 200, `"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}`},
		{"/apis/autoscaling", 200, `"versions":[{"groupVersion":"autoscaling/v2","version":"v2"},{"groupVersion":"autoscaling/v1","version":"v1"}]`},
		{"/apis/autoscaling/", 200, `"kind":"APIGroup","apiVersion":"v1"`},
		{"/apis/apps/v1", 200, `{"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get","patch","update"]}`},
		{"/apis/apps/v2", 404, `"reason":"NotFound"`},
		{"/apis/none", 404, "404 page not found"},
		{"/apis/apps/v1/deployments", 404, ""},
		{"/apis//v1", 404, "404 page not found"},
		{"/apisx", 404, "404 page not found"},
	} {
		w := serve(t, h, tc.path, "application/json")
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.has) {
			t.Errorf("%s: %d %.300s, want %d with %s", tc.path, w.Code, w.Body, tc.code, tc.has)
		}
	}
}

func TestNegotiation(t *testing.T) {
	h := handler(append(upstream(t), legacyKinds(t)...))
	const v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	for _, tc := range []struct {
		path, accept string
		code         int
		contentType  string
	}{
		{"/apis", "", 200, "application/json"},
		{"/apis", "*/*", 200, "application/json"},
		{"/apis", "text/html, */*;q=0.8", 200, "application/json"},
		{"/apis", "text/html", 406, "application/json"},
		{"/apis", "application/yaml", 200, "application/yaml"},
		{"/apis", v2 + "," + v2beta1 + ",application/json", 200, v2},
		{"/api", v2 + ";profile=nopeer," + v2 + ",application/json", 200, v2},
		{"/apis", v2beta1 + ",application/json", 200, v2beta1},
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", 406, "application/json"},
		{"/apis", "application/json;q=0.5," + v2beta1, 200, v2beta1},
		{"/apis/apps/v1", v2 + ",application/json", 200, "application/json"},
		{"/apis/apps/v1", "application/vnd.kubernetes.protobuf,application/json", 200, "application/vnd.kubernetes.protobuf"},
	} {
		w := serve(t, h, tc.path, tc.accept)
		if w.Code != tc.code || w.Header().Get("Content-Type") != tc.contentType {
			t.Errorf("%s as %q: %d %q, want %d %q", tc.path, tc.accept, w.Code, w.Header().Get("Content-Type"), tc.code, tc.contentType)
		}
	}
}

func TestOtherEncodingsSayTheSame(t *testing.T) {
	h := handler(append(upstream(t), legacyKinds(t)...))
	var want apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(serve(t, h, "/apis", v2).Body.Bytes(), &want); err != nil {
		t.Fatal(err)
	}
	body := serve(t, h, "/apis", strings.Replace(v2, "json", "vnd.kubernetes.protobuf", 1)).Body.Bytes()
	raw, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		t.Fatalf("no protobuf envelope: %.20q", body)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	var got apidiscovery.APIGroupDiscoveryList
	if err := got.Unmarshal(unknown.Raw); err != nil {
		t.Fatal(err)
	}
	got.APIVersion, got.Kind = unknown.APIVersion, unknown.Kind
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("protobuf differs (-json +protobuf):\n%s", diff)
	}
	var beta apidiscoveryv2beta1.APIGroupDiscoveryList
	if err := json.Unmarshal(serve(t, h, "/apis", strings.Replace(v2, "v=v2", "v=v2beta1", 1)).Body.Bytes(), &beta); err != nil {
		t.Fatal(err)
	}
	beta.APIVersion = want.APIVersion
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(beta)
	if diff := cmp.Diff(string(a), string(b)); diff != "" {
		t.Errorf("v2beta1 differs (-v2 +v2beta1):\n%s", diff)
	}
}

func TestETag(t *testing.T) {
	list, version := upstream(t), uint64(1)
	h := New(func() []*kinds.Kind { return list }, func() uint64 { return version })
	first := serve(t, h, "/apis", v2).Header().Get("ETag")
	if first == "" {
		t.Fatal("no ETag")
	}
	if w := serve(t, h, "/apis", v2, "If-None-Match", first); w.Code != 304 || w.Body.Len() != 0 {
		t.Errorf("unchanged: %d with %d bytes, want 304", w.Code, w.Body.Len())
	}
	list = append(list, &kinds.Kind{
		Resource: schema.GroupResource{Group: "a.example.com", Resource: "widgets"}, Kind: "Widget",
		Versions: []kinds.Version{{GroupVersion: schema.GroupVersion{Group: "a.example.com", Version: "v1"}}},
	})
	version++
	w := serve(t, h, "/apis", v2, "If-None-Match", first)
	if w.Code != 200 || w.Header().Get("ETag") == first {
		t.Errorf("a new kind: %d with ETag %s, want 200 with a new one", w.Code, w.Header().Get("ETag"))
	}
	var got apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if last := got.Items[len(got.Items)-1]; last.Name != "a.example.com" {
		t.Errorf("a custom group must come last, got %s", last.Name)
	}
}

func TestMethods(t *testing.T) {
	h := handler(upstream(t))
	for method, code := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/apis", nil))
		if w.Code != code || method == "HEAD" && w.Body.Len() > 0 {
			t.Errorf("%s: %d, %d bytes", method, w.Code, w.Body.Len())
		}
	}
}
