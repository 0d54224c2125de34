package openapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	explain "k8s.io/kubectl/pkg/explain/v2"
	kubectlopenapi "k8s.io/kubectl/pkg/util/openapi"
	"k8s.io/kubectl/pkg/validation"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

// widget is a kind of which no Go type tells anything.
func widget() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: "shop.example.com", Resource: "widgets"}, Kind: "Widget", Singular: "widget",
		Versions: []kinds.Version{{
			GroupVersion: schema.GroupVersion{Group: "shop.example.com", Version: "v1"},
			New:          func() kinds.Object { return &unstructured.Unstructured{} },
			NewList:      func() runtime.Object { return &unstructured.UnstructuredList{} },
		}},
	}
}

func newServer(t *testing.T) (*httptest.Server, *discovery.DiscoveryClient) {
	t.Helper()
	mux := http.NewServeMux()
	h := New("v1.37.2", func() []*kinds.Kind { return append(all.Kinds(), widget()) }, nil)
	for path, one := range h.Paths() {
		mux.Handle(path, one)
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	return srv, c
}

func get(t *testing.T, url, accept string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {a: b}}
spec:
  replicas: 3
  selector: {matchLabels: {a: b}}
  strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - name: main
        image: demo:1
        ports: [{containerPort: 8080, name: http}]
        resources: {limits: {cpu: 1, memory: 1Gi}}
        readinessProbe: {httpGet: {path: /, port: http}}
        env: [{name: A, value: b}]
`

// kubectl's own validation, fed from v2 as protobuf.
func TestKubectlValidates(t *testing.T) {
	_, c := newServer(t)
	v := validation.NewSchemaValidation(getter{kubectlopenapi.NewOpenAPIParser(c)})
	for _, tc := range []struct{ change, to, want string }{
		{"", "", ""},
		{"replicas: 3", "replicas: three", `invalid type for io.k8s.api.apps.v1.DeploymentSpec.replicas: got "string", expected "integer"`},
		{"replicas: 3", "replica: 3", `unknown field "replica" in io.k8s.api.apps.v1.DeploymentSpec`},
		{"selector: {matchLabels: {a: b}}", "", `missing required field "selector" in io.k8s.api.apps.v1.DeploymentSpec`},
		{"containerPort: 8080", "containerPort: x", "got \"string\", expected \"integer\""},
		{"- name: main", "- nam: main", `missing required field "name" in io.k8s.api.core.v1.Container`},
	} {
		err := v.ValidateBytes([]byte(strings.Replace(deployment, tc.change, tc.to, 1)))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: got %v, want %q", tc.to, err, tc.want)
		}
	}
	for _, good := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80, targetPort: http}]}",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\ndata: {c: ZA==}",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}]",
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: e}\naddressType: IPv4\nendpoints: []",
		"apiVersion: shop.example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {anything: [1, {goes: true}]}",
	} {
		if err := v.ValidateBytes([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// kubectl asks in v3 whether the server checks fields itself.
func TestKubectlFindsFieldValidation(t *testing.T) {
	_, c := newServer(t)
	for _, param := range []resource.VerifiableQueryParam{resource.QueryParamFieldValidation, "dryRun"} {
		v3 := resource.NewQueryParamVerifierV3(nil, c.OpenAPIV3(), param)
		v2 := resource.NewQueryParamVerifier(nil, c, param)
		for _, gvk := range []schema.GroupVersionKind{
			{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Namespace"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "batch", Version: "v1", Kind: "CronJob"},
		} {
			if err := v3.HasSupport(gvk); err != nil {
				t.Errorf("v3, %s of %s: %v", param, gvk.Kind, err)
			}
			if err := v2.HasSupport(gvk); err != nil {
				t.Errorf("v2, %s of %s: %v", param, gvk.Kind, err)
			}
		}
	}
}

func TestKubectlExplains(t *testing.T) {
	_, c := newServer(t)
	for _, tc := range []struct {
		res  schema.GroupVersionResource
		path []string
		want []string
	}{
		{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, []string{"spec", "containers"}, []string{"KIND:       Pod", "FIELD: containers <[]Container>", "image\t<string>", "name\t<string> -required-"}},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, []string{"spec", "strategy", "rollingUpdate", "maxSurge"}, []string{"GROUP:      apps", "FIELD: maxSurge <IntOrString>", "The maximum number of pods"}},
	} {
		var out bytes.Buffer
		if err := explain.PrintModelDescription(tc.path, &out, c.OpenAPIV3(), tc.res, false, 0, "plaintext"); err != nil {
			t.Errorf("%s: %v", tc.res.Resource, err)
		}
		for _, want := range tc.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s %v does not tell %q:\n%s", tc.res.Resource, tc.path, want, out.String())
			}
		}
	}
}

// The protobuf written by hand is what the library reads from the JSON.
func TestProtobufSaysWhatJSONSays(t *testing.T) {
	srv, _ := newServer(t)
	_, asJSON := get(t, srv.URL+"/openapi/v2", "application/json")
	want, err := openapi_v2.ParseDocument(asJSON)
	if err != nil {
		t.Fatal(err)
	}
	resp, raw := get(t, srv.URL+"/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
	if got := resp.Header.Get("Content-Type"); got != "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" {
		t.Errorf("Content-Type %q", got)
	}
	got := &openapi_v2.Document{}
	if err := unmarshalProto(raw, got); err != nil {
		t.Fatal(err)
	}
	for _, doc := range []*openapi_v2.Document{got, want} {
		if n := len(doc.GetDefinitions().GetAdditionalProperties()); n < 400 {
			t.Errorf("%d definitions", n)
		}
	}
	a, b := sorted(t, want), sorted(t, got)
	if diff := cmp.Diff(strings.Split(a, "\n"), strings.Split(b, "\n")); diff != "" {
		t.Errorf("(-JSON +protobuf):\n%.3000s", diff)
	}
}

func TestIndexAndHashes(t *testing.T) {
	srv, _ := newServer(t)
	_, body := get(t, srv.URL+"/openapi/v3", "")
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(body, &index); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"api/v1", "apis/apps/v1", "apis/shop.example.com/v1"} {
		url := index.Paths[path].ServerRelativeURL
		if !strings.HasPrefix(url, "/openapi/v3/"+path+"?hash=") {
			t.Errorf("%s is at %q", path, url)
			continue
		}
		resp, body := get(t, srv.URL+url, "application/json")
		if resp.StatusCode != 200 || !json.Valid(body) || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %s, %d bytes, cache %q", url, resp.Status, len(body), resp.Header.Get("Cache-Control"))
		}
		resp, _ = get(t, srv.URL+"/openapi/v3/"+path+"?hash=OLD", "")
		if got := resp.Request.URL.RequestURI(); got != url {
			t.Errorf("a hash of the past leads to %s, want %s", got, url)
		}
	}
	for url, code := range map[string]int{"/openapi/v3/apis/none/v1": 404, "/openapi/v3/": 200} {
		if resp, _ := get(t, srv.URL+url, ""); resp.StatusCode != code {
			t.Errorf("%s: %s, want %d", url, resp.Status, code)
		}
	}
	if resp, _ := get(t, srv.URL+"/openapi/v3/api/v1", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"); resp.StatusCode != 406 {
		t.Errorf("v3 as protobuf: %s, want 406", resp.Status)
	}
	if resp, _ := get(t, srv.URL+"/openapi/v2", "text/html"); resp.StatusCode != 406 {
		t.Errorf("v2 as HTML: %s, want 406", resp.Status)
	}
	if resp, err := http.Post(srv.URL+"/openapi/v2", "", nil); err != nil || resp.StatusCode != 405 {
		t.Errorf("POST: %v %v, want 405", resp, err)
	}
}

func TestVersionMoves(t *testing.T) {
	list, version := []*kinds.Kind{widget()}, uint64(0)
	h := New("v1.37.2", func() []*kinds.Kind { return list }, func() uint64 { return version })
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.Paths()["/openapi/v3/"].ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	one := ask("/openapi/v3/apis/shop.example.com/v1")
	second := widget()
	second.Resource.Resource, second.Kind = "gadgets", "Gadget"
	list = append(list, second)
	version++
	two := ask("/openapi/v3/apis/shop.example.com/v1")
	if strings.Contains(one.Body.String(), "Gadget") || !strings.Contains(two.Body.String(), "com.example.shop.v1.Gadget") {
		t.Error("the document did not follow the kinds")
	}
	if one.Header().Get("ETag") == two.Header().Get("ETag") {
		t.Error("the hash did not follow the kinds")
	}
}

func TestStatusOfTypes(t *testing.T) {
	c := New("", all.Kinds, nil).snapshot().catalog(v3)
	c.object(schema.GroupVersionKind{Version: "v1", Kind: "Service"})
	for _, tc := range []struct{ model, field, want string }{
		{"io.k8s.api.core.v1.ServicePort", "targetPort", `{"allOf":[{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"}]`},
		{"io.k8s.api.core.v1.ServiceSpec", "ports", `"x-kubernetes-list-map-keys":["port","protocol"],"x-kubernetes-list-type":"map","x-kubernetes-patch-merge-key":"port","x-kubernetes-patch-strategy":"merge"`},
		{"io.k8s.api.core.v1.ServiceSpec", "selector", `"additionalProperties":{"type":"string"}`},
		{"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", `"x-kubernetes-list-type":"set"`},
	} {
		if got := string(marshal(c.byName[tc.model].Properties[tc.field])); !strings.Contains(got, tc.want) {
			t.Errorf("%s.%s is %s, want %s", tc.model, tc.field, got, tc.want)
		}
	}
	intOrString := string(marshal(c.byName["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]))
	if !strings.Contains(intOrString, `"oneOf":[{"type":"integer"},{"type":"string"}]`) || !strings.Contains(intOrString, `"format":"int-or-string"`) {
		t.Errorf("IntOrString is %s", intOrString)
	}
}

// A document's hash covers what it follows from, not its text: whoever changes
// what is made of the same types counts generation up and updates this.
func TestGenerationIsCounted(t *testing.T) {
	s := New("v", func() []*kinds.Kind { return []*kinds.Kind{widget()} }, nil).snapshot()
	sum := sha(s.jsonV3(&s.groups[0]))
	if want := "8f1f8f79"; generation != 2 || sum != want {
		t.Errorf("the document of generation %d has hash %s, want generation 2 with %s: count generation up", generation, sum, want)
	}
}

func BenchmarkCoreV3(b *testing.B) {
	s := New("v1.37.2", all.Kinds, nil).snapshot()
	for i := range s.groups {
		if s.groups[i].path() == "api/v1" {
			for b.Loop() {
				compress(s.jsonV3(&s.groups[i]))
			}
		}
	}
}

func BenchmarkV2(b *testing.B) {
	s := New("v1.37.2", all.Kinds, nil).snapshot()
	for b.Loop() {
		compress(s.protobufV2())
	}
}
