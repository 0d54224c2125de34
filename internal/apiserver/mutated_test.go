package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/mutate"
)

// sender sends requests that nobody would, and sees that each has an answer.
// The server panics with what panics in it (Config.CheckImmutable).
type sender struct{ h *apitest.Harness }

func (s *sender) send(t *testing.T, method, path, contentType string, body []byte) int {
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	s.h.Server.ServeHTTP(w, r)
	if w.Code < 200 || w.Code > 599 || w.Body.Len() == 0 {
		t.Fatalf("%s %s: %d, %d bytes", method, path, w.Code, w.Body.Len())
	}
	if w.Code >= 400 && !json.Valid(w.Body.Bytes()) {
		t.Fatalf("%s %s: %d without a status: %q", method, path, w.Code, w.Body.Bytes())
	}
	return w.Code
}

const podsPath = "/api/v1/namespaces/default/pods"

const mutatedPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["example.com/f"],
	"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u","controller":true}]},
	"spec":{"containers":[{"name":"c","image":"i:1","command":["x"],"ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"E","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
	"resources":{"limits":{"cpu":"100m","memory":"1Gi"}},"livenessProbe":{"httpGet":{"path":"/","port":"http"}},"volumeMounts":[{"name":"v","mountPath":"/v"}]}],
	"volumes":[{"name":"v","projected":{"sources":[{"configMap":{"name":"m","items":[{"key":"k","path":"p"}]}}]}}],
	"tolerations":[{"key":"k","operator":"Exists"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}]}}}}}`

// TestMutatedBodies: whatever comes as an object in any media type is taken or
// refused.
func TestMutatedBodies(t *testing.T) {
	s := &sender{apitest.New(t, apitest.Options{})}
	pod := &corev1.Pod{}
	var loose any
	if err := json.Unmarshal([]byte(mutatedPod), pod); err != nil {
		t.Fatal(err)
	}
	json.Unmarshal([]byte(mutatedPod), &loose)
	asYAML, _ := yaml.JSONToYAML([]byte(mutatedPod))
	asCBOR, err := direct.Marshal(loose)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	asProto := append([]byte("k8s\x00\n\x09\n\x02v1\x12\x03Pod\x12"), byte(len(raw)|0x80), byte(len(raw)>>7))
	asProto = append(append(asProto, raw...), 0x1a, 0, 0x22, 0)
	for contentType, body := range map[string][]byte{
		"application/json": []byte(mutatedPod), "application/yaml": asYAML, "application/cbor": asCBOR, "application/vnd.kubernetes.protobuf": asProto,
	} {
		t.Run(contentType, func(t *testing.T) {
			if code := s.send(t, "POST", podsPath+"?dryRun=All", contentType, body); code != 201 {
				t.Fatalf("what was not changed: %d", code)
			}
			taken := 0
			mutate.Run(t, [][]byte{body}, func(t *testing.T, data []byte) {
				if s.send(t, "POST", podsPath+"?dryRun=All&fieldValidation=Warn", contentType, data) == 201 {
					taken++
				}
				s.send(t, "DELETE", podsPath+"/none", contentType, data)
			})
			t.Logf("%d were taken", taken)
		})
	}
}

// TestMutatedPatches: whatever a patch of any type says is done or refused, and
// the object stays one that can be read and written.
func TestMutatedPatches(t *testing.T) {
	s := &sender{apitest.New(t, apitest.Options{})}
	applied, _ := direct.Marshal(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d"}, "spec": map[string]any{"replicas": int64(2)}})
	for pt, seeds := range map[types.PatchType][]string{
		types.JSONPatchType: {
			`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"copy","from":"/spec","path":"/spec/x"}]`,
			`[{"op":"move","from":"/spec/template","path":"/spec/template/spec"},{"op":"test","path":"/spec/replicas","value":1}]`,
		},
		types.MergePatchType: {`{"metadata":{"labels":{"a":null}},"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"x","image":"y"}]}}}}`},
		types.StrategicMergePatchType: {
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","$patch":"delete"}],"$setElementOrder/containers":[{"name":"x"}]}}}}`,
			`{"spec":{"strategy":{"$retainKeys":["type"]}},"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`,
		},
		types.ApplyYAMLPatchType: {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 2, template: {spec: {containers: [{name: c, env: [{name: a, value: b}]}]}}}\n",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","labels":{"x":"y"}},"spec":{"selector":{"matchLabels":{"a":"b"}}}}`,
		},
		types.ApplyCBORPatchType: {string(applied)},
	} {
		t.Run(string(pt), func(t *testing.T) {
			var list [][]byte
			for _, seed := range seeds {
				list = append(list, []byte(seed))
			}
			mutate.Run(t, list, func(t *testing.T, data []byte) {
				s.send(t, "DELETE", deployPath+"/d", "", nil)
				if code := s.send(t, "POST", deployPath, "application/json", []byte(deployment)); code != 201 {
					t.Fatal(code)
				}
				query := "?fieldManager=f"
				if pt == types.ApplyYAMLPatchType || pt == types.ApplyCBORPatchType {
					query += "&force=true"
				}
				s.send(t, "PATCH", deployPath+"/d"+query, string(pt), data)
				s.send(t, "PATCH", deployPath+"/d/scale"+query, string(pt), data)
				if code := s.send(t, "GET", deployPath+"/d", "", nil); code != 200 {
					t.Fatalf("afterwards the object is not there: %d", code)
				}
				s.send(t, "PATCH", deployPath+"/d", string(types.MergePatchType), []byte(`{"metadata":{"finalizers":null}}`))
			})
		})
	}
}

// TestMutatedQueries: selectors, tokens to go on, revisions and what else one
// may ask for.
func TestMutatedQueries(t *testing.T) {
	s := &sender{apitest.New(t, apitest.Options{})}
	for i := range 3 {
		s.send(t, "POST", cmPath, "application/json", []byte(fmt.Sprintf(`{"metadata":{"name":"a%d","labels":{"a":"b"}}}`, i)))
	}
	r := httptest.NewRequest("GET", cmPath+"?limit=1", nil)
	w := httptest.NewRecorder()
	s.h.Server.ServeHTTP(w, r)
	var list corev1.ConfigMapList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || list.Continue == "" {
		t.Fatal(w.Body.String(), err)
	}
	seeds := [][]byte{
		[]byte("labelSelector=a+in+(b,c),!d,e%3Df&limit=2"), []byte("fieldSelector=metadata.name%3Da1,metadata.namespace!%3Dx"),
		[]byte("limit=1&continue=" + list.Continue), []byte("resourceVersion=3&resourceVersionMatch=Exact&limit=10"),
		[]byte("resourceVersion=0&resourceVersionMatch=NotOlderThan&timeoutSeconds=5&pretty=true&includeObject=Metadata"),
	}
	mutate.Run(t, seeds, func(t *testing.T, data []byte) {
		query := string(data)
		// A watch would not end, and a revision to come is waited for.
		if strings.Contains(query, "watch") || strings.ContainsAny(query, " #\x00\r\n\t") {
			return
		}
		r := httptest.NewRequest("GET", cmPath, nil)
		r.URL.RawQuery = query + "&timeout=10ms"
		w := httptest.NewRecorder()
		s.h.Server.ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 599 || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%d %q", w.Code, w.Body.Bytes())
		}
	})
}
