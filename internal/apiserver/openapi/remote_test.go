package openapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

const gaugesV2 = `{"swagger":"2.0","info":{"title":"x","version":"1"},
"paths":{
 "/apis/metrics.example.com/v1/gauges":{"parameters":[{"$ref":"#/parameters/pretty"}],"get":{"operationId":"listGauges","description":"d","consumes":["*/*"],"produces":["application/json"],"schemes":["https"],"tags":["t"],
  "parameters":[{"in":"query","name":"limit","type":"integer","uniqueItems":true}],
  "responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/com.example.GaugeList"}}},"x-kubernetes-action":"list","x-kubernetes-group-version-kind":{"group":"metrics.example.com","version":"v1","kind":"Gauge"}}},
 "/apis/apps/v1/deployments":{"get":{"operationId":"mine","responses":{"200":{"description":"OK"}}}},
 "/apis/other.example.com/v1/things":{"get":{"operationId":"others","responses":{"200":{"description":"OK"}}}}},
"definitions":{
 "com.example.GaugeList":{"type":"object","properties":{"items":{"type":"array","items":{"$ref":"#/definitions/com.example.Gauge"}}}},
 "com.example.Gauge":{"type":"object","properties":{"metadata":{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},"next":{"$ref":"#/definitions/com.example.Gauge"}}},
 "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta":{"type":"string"},
 "com.example.Unused":{"type":"object"}}}`

// TestMerge: what another server serves is in the index, and in version 2 among
// ours, with what it refers to and nothing else.
func TestMerge(t *testing.T) {
	list := []Remote{
		{GroupVersion: schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}, V3: []byte(`{"openapi":"3.0.0"}`), Hash: "ABC", V2: []byte(gaugesV2)},
		{GroupVersion: schema.GroupVersion{Group: "broken.example.com", Version: "v1"}, V2: []byte(`{"paths": 3}`)},
	}
	h := New("v1.37.2", func() []*kinds.Kind { return all.Kinds() }, nil)
	h.Merge(func() []Remote { return list })
	ask := func(path, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		mux := http.NewServeMux()
		for at, one := range h.Paths() {
			mux.Handle(at, one)
		}
		mux.ServeHTTP(w, r)
		return w
	}
	if index := ask("/openapi/v3", jsonType).Body.String(); !strings.Contains(index, `"apis/metrics.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/metrics.example.com/v1?hash=ABC"}`) || strings.Contains(index, "broken") {
		t.Errorf("index %s", index)
	}
	if w := ask("/openapi/v3/apis/metrics.example.com/v1?hash=ABC", jsonType); w.Body.String() != `{"openapi":"3.0.0"}` || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("v3: %d %v %s", w.Code, w.Header(), w.Body)
	}
	body := ask("/openapi/v2", jsonType).Body.Bytes()
	var doc docV2
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	gauges := doc.Paths["/apis/metrics.example.com/v1/gauges"]
	if gauges == nil || gauges.Get.OperationID != "listGauges" || len(gauges.Parameters) != 0 || len(gauges.Get.Parameters) != 1 {
		t.Errorf("its path is %+v", gauges)
	}
	if doc.Paths["/apis/apps/v1/deployments"].Get.OperationID == "mine" || doc.Paths["/apis/other.example.com/v1/things"] != nil {
		t.Error("it describes what is not its own")
	}
	if doc.Definitions["com.example.Gauge"] == nil || doc.Definitions["com.example.Unused"] != nil || doc.Definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].Type == "string" {
		t.Error("its models are not there, or in place of ours")
	}
	if err := unmarshalProto(ask("/openapi/v2", protobufV2).Body.Bytes(), &openapi_v2.Document{}); err != nil {
		t.Errorf("as protobuf: %v", err)
	}
}
