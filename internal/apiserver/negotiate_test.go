package apiserver

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

func TestNegotiate(t *testing.T) {
	json, proto, yaml := presentation{}, presentation{medium: mediumProto}, presentation{medium: mediumYAML}
	table := presentation{as: asTable}
	for _, tc := range []struct {
		accept    string
		streaming bool
		want      presentation
		ok        bool
	}{
		{"", false, json, true},
		{"*/*", false, json, true},
		{"application/*", false, json, true},
		{"application/json, */*", false, json, true},
		{"application/yaml", false, yaml, true},
		{"application/yaml", true, presentation{}, false},
		{"application/yaml, application/json", true, json, true},
		{"application/vnd.kubernetes.protobuf", false, proto, true},
		{"application/vnd.kubernetes.protobuf,application/json", false, proto, true},
		{"application/json;q=0.5, application/yaml;q=0.9", false, yaml, true},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", false, table, true},
		{"application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", false, json, true},
		{"application/json;as=Table;v=v1beta1;g=meta.k8s.io", false, presentation{}, false},
		{"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", false, presentation{medium: mediumProto, as: asMetadata}, true},
		{"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1", false, table, true},
		{"application/json;as=Gizmo;g=meta.k8s.io;v=v1", false, presentation{}, false},
		{"application/cbor", false, presentation{medium: mediumCBOR}, true},
		{"application/cbor;q=0.9, application/json;q=0.8", false, presentation{medium: mediumCBOR}, true},
		{"application/cbor-seq", true, presentation{medium: mediumCBOR}, true},
		{"application/cbor-seq", false, presentation{}, false},
		{"text/html", false, presentation{}, false},
		{"text/html,application/xhtml+xml,*/*;q=0.8", false, json, true},
	} {
		r := &http.Request{Header: http.Header{}, URL: &url.URL{}}
		if tc.accept != "" {
			r.Header.Set("Accept", tc.accept)
		}
		got, err := negotiate(r, tc.streaming, true)
		if (err == nil) != tc.ok || got != tc.want {
			t.Errorf("%q: got %+v and %v, want %+v", tc.accept, got, err, tc.want)
		}
	}
}

// TestNegotiateCustom: custom objects have no protobuf form, but who would take
// another gets that, and metadata comes as protobuf even so.
func TestNegotiateCustom(t *testing.T) {
	const metadata = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for accept, want := range map[string]presentation{
		typeProto + "," + typeJSON:                                        {},
		typeProto + metadata + "," + typeJSON + metadata + "," + typeJSON: {medium: mediumProto, as: asMetadata},
		typeProto + ",application/yaml;q=0.5":                             {medium: mediumYAML},
	} {
		got, err := negotiate(&http.Request{Header: http.Header{"Accept": {accept}}, URL: &url.URL{}}, false, false)
		if err != nil || got != want {
			t.Errorf("%q: got %+v and %v, want %+v", accept, got, err, want)
		}
	}
	for _, streaming := range []bool{false, true} {
		if _, err := negotiate(&http.Request{Header: http.Header{"Accept": {typeProto}}, URL: &url.URL{}}, streaming, false); err == nil {
			t.Errorf("protobuf alone is taken (streaming: %v)", streaming)
		}
	}
	_, err := decodeRuntime([]byte(protoMagic), mediumProto, fieldsWarn, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Box"}, &unstructured.Unstructured{})
	if !apierrors.IsUnsupportedMediaType(err) || strings.Contains(err.Error(), typeProto) {
		t.Errorf("a body in protobuf is answered: %v", err)
	}
}

func TestPretty(t *testing.T) {
	for ua, want := range map[string]bool{"curl/8.0": true, "Mozilla/5.0 x": true, "kubectl/v1.37": false} {
		r := &http.Request{Header: http.Header{"User-Agent": {ua}}, URL: &url.URL{}}
		if got := wantsPretty(r); got != want {
			t.Errorf("%s: got %v, want %v", ua, got, want)
		}
		r.URL.RawQuery = "pretty=false"
		if wantsPretty(r) {
			t.Errorf("%s: pretty=false is not heeded", ua)
		}
	}
}

// box is an object of a custom kind: it has no protobuf form.
type box struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (b *box) DeepCopyObject() runtime.Object { c := *b; return &c }

// TestKindOfCustomObject: a custom object says of what kind it is, in whatever
// form it comes; a built-in one need not.
func TestKindOfCustomObject(t *testing.T) {
	boxes := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Box"}
	maps := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	for _, m := range []medium{mediumJSON, mediumYAML, mediumCBOR} {
		body := func(fields map[string]any) []byte {
			fields["metadata"] = map[string]any{"name": "a"}
			data, err := json.Marshal(fields)
			if m == mediumCBOR {
				data, err = cbor.Marshal(fields)
			}
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		_, err := decodeRuntime(body(map[string]any{"apiVersion": "example.com/v1"}), m, fieldsWarn, boxes, &box{})
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "must be of type Box): Object 'Kind' is missing in '{") {
			t.Errorf("%v: a custom object without a kind: %v", m, err)
		}
		if _, err := decodeRuntime(body(map[string]any{"apiVersion": "example.com/v1", "kind": "Box"}), m, fieldsWarn, boxes, &box{}); err != nil {
			t.Errorf("%v: a custom object: %v", m, err)
		}
		if _, err := decodeRuntime(body(map[string]any{}), m, fieldsWarn, maps, &corev1.ConfigMap{}); err != nil {
			t.Errorf("%v: a built-in object: %v", m, err)
		}
	}
}
