package policystatus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-project/setpoint/internal/client"
)

// document is what of an OpenAPI v3 document is read.
type document struct {
	Components struct {
		Schemas map[string]*spec.Schema `json:"schemas"`
	} `json:"components"`
}

// schemas reads the schemas of kinds as the API server publishes them, each
// document once. It is used for one look.
type schemas struct {
	client    client.Interface
	documents map[schema.GroupVersion]*document
}

// of is the schema of a kind, with all that it refers to in it; nil: nobody
// publishes one.
func (s *schemas) of(ctx context.Context, gvk schema.GroupVersionKind) (*spec.Schema, error) {
	doc, err := s.document(ctx, gvk.GroupVersion())
	if doc == nil || err != nil {
		return nil, err
	}
	for _, one := range doc.Components.Schemas {
		if isOf(one, gvk) {
			return doc.expand(one, nil), nil
		}
	}
	return nil, nil
}

func (s *schemas) document(ctx context.Context, gv schema.GroupVersion) (*document, error) {
	if doc, ok := s.documents[gv]; ok {
		return doc, nil
	}
	path := "/openapi/v3/apis/" + gv.String()
	if gv.Group == "" {
		path = "/openapi/v3/api/" + gv.Version
	}
	data, err := s.client.Raw(ctx, path, nil)
	var doc *document
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	default:
		doc = &document{}
		if err := json.Unmarshal(data, doc); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	s.documents[gv] = doc
	return doc, nil
}

// isOf tells whether a schema says that it is that of a kind.
func isOf(s *spec.Schema, gvk schema.GroupVersionKind) bool {
	list, _ := s.Extensions["x-kubernetes-group-version-kind"].([]any)
	return slices.ContainsFunc(list, func(one any) bool {
		m, _ := one.(map[string]any)
		return m["group"] == gvk.Group && m["version"] == gvk.Version && m["kind"] == gvk.Kind
	})
}

// anything is a schema whose values expressions may use as they like. CEL's
// types have one such: what may be a number or a string.
func anything() *spec.Schema {
	s := &spec.Schema{}
	s.AddExtension("x-kubernetes-int-or-string", true)
	return s
}

// expand puts what a schema refers to in the place of the references. One that
// comes back to itself is cut there.
func (d *document) expand(s *spec.Schema, within []string) *spec.Schema {
	if name := refers(s); name != "" {
		to := d.Components.Schemas[name]
		if to == nil || slices.Contains(within, name) {
			return anything()
		}
		return d.expand(to, append(within[:len(within):len(within)], name))
	}
	if len(s.Type) == 0 && len(s.Properties) == 0 {
		return anything()
	}
	out := *s
	out.Properties = make(map[string]spec.Schema, len(s.Properties))
	for name, p := range s.Properties {
		out.Properties[name] = *d.expand(&p, within)
	}
	if s.Items != nil && s.Items.Schema != nil {
		out.Items = &spec.SchemaOrArray{Schema: d.expand(s.Items.Schema, within)}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: d.expand(s.AdditionalProperties.Schema, within)}
	}
	return &out
}

// refers is the name of the schema that another stands for: by itself, or in
// an allOf of one, which is how a reference is given a description.
func refers(s *spec.Schema) string {
	ref := s.Ref.String()
	if ref == "" && len(s.AllOf) == 1 {
		ref = s.AllOf[0].Ref.String()
	}
	return strings.TrimPrefix(ref, "#/components/schemas/")
}
