package openapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// shown is a schema that is given as it is to be shown.
type shown struct {
	kinds.Schema
	text string
}

func (s shown) OpenAPI(bool) ([]byte, error) { return []byte(s.text), nil }
func (s shown) Hash() string                 { return s.text }

// TestCustom: a custom object has what every object has, but in v2 where its
// schema lets unknown fields through: readers of v2 take what is listed there
// for all that may be there.
func TestCustom(t *testing.T) {
	const name = "com.example.shop.v1.Widget"
	for _, tc := range []struct {
		schema string
		v2     []string // the properties
		nested []string // those of the property "inner"
	}{
		{`{"type":"object"}`, []string{"apiVersion", "kind", "metadata"}, nil},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, nil, nil},
		{`{"description":"d","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{}}}`, nil, nil},
		{`{"type":"object","properties":{"inner":{"type":"object","x-kubernetes-embedded-resource":true}}}`,
			[]string{"apiVersion", "inner", "kind", "metadata"}, []string{"apiVersion", "kind", "metadata"}},
		{`{"type":"object","properties":{"inner":{"x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}`,
			[]string{"apiVersion", "inner", "kind", "metadata"}, nil},
	} {
		k := widget()
		k.Versions[0].Schema = shown{text: tc.schema}
		mux := http.NewServeMux()
		for path, one := range New("v1.37.2", func() []*kinds.Kind { return []*kinds.Kind{k} }, nil).Paths() {
			mux.Handle(path, one)
		}
		srv := httptest.NewServer(mux)
		_, body := get(t, srv.URL+"/openapi/v2", "application/json")
		srv.Close()
		var doc struct{ Definitions map[string]*model }
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Fatal(err)
		}
		m := doc.Definitions[name]
		if m == nil {
			t.Fatalf("%s: no definition of %s", tc.schema, name)
		}
		if diff := cmp.Diff(tc.v2, names(m)); diff != "" {
			t.Errorf("%s: v2's properties (-want +got):\n%s", tc.schema, diff)
		}
		if inner := m.Properties["inner"]; inner != nil {
			if diff := cmp.Diff(tc.nested, names(inner)); diff != "" {
				t.Errorf("%s: v2's properties within (-want +got):\n%s", tc.schema, diff)
			}
		}
		if len(m.GVKs) != 1 || m.Type != "object" {
			t.Errorf("%s: got type %q, kinds %v", tc.schema, m.Type, m.GVKs)
		}
		if m.PreserveUnknown {
			t.Errorf("%s: v2 says that unknown fields are kept, which its readers do not know", tc.schema)
		}
	}
}

func names(m *model) []string {
	var out []string
	for name := range m.Properties {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
