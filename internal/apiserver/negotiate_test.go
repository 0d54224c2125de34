package apiserver

import (
	"net/http"
	"net/url"
	"testing"
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
		{"text/html", false, presentation{}, false},
		{"text/html,application/xhtml+xml,*/*;q=0.8", false, json, true},
	} {
		r := &http.Request{Header: http.Header{}, URL: &url.URL{}}
		if tc.accept != "" {
			r.Header.Set("Accept", tc.accept)
		}
		got, err := negotiate(r, tc.streaming)
		if (err == nil) != tc.ok || got != tc.want {
			t.Errorf("%q: got %+v and %v, want %+v", tc.accept, got, err, tc.want)
		}
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
