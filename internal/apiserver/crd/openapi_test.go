package crd

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestPublish: what version 2 of OpenAPI cannot say, its readers are not told;
// a type that they would check by is left out with it.
func TestPublish(t *testing.T) {
	for _, tc := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}},"required":["a"]}`, `{"x-kubernetes-preserve-unknown-fields":true}`},
		{`{"type":"object","properties":{"a":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"description":"d"}}}`,
			`{"type":"object","properties":{"a":{"description":"d","x-kubernetes-preserve-unknown-fields":true}}}`},
		{`{"type":"array","items":{"type":"string","nullable":true}}`, `{"type":"array","items":{}}`},
		{`{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"string"}}`, `{"x-kubernetes-preserve-unknown-fields":true}`},
		{`{"type":"string","x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"}]}`, `{"x-kubernetes-int-or-string":true}`},
		{`{"type":"object","additionalProperties":{"type":"array","nullable":true,"items":{"type":"string"}}}`, `{"type":"object","additionalProperties":{}}`},
	} {
		var props apiextensionsv1.JSONSchemaProps
		if err := json.Unmarshal([]byte(tc.schema), &props); err != nil {
			t.Fatal(err)
		}
		publish(&props, true)
		data, err := json.Marshal(&props)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.schema, diff)
		}
	}
}
