package policystatus

import (
	"bytes"
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

// document is what of an OpenAPI v3 document is read. Of its schemas, of which
// a policy needs few, each is read when it is asked for.
type document struct {
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`

	read map[string]*spec.Schema
}

// schema is one by its name; nil: there is none.
func (d *document) schema(name string) (*spec.Schema, error) {
	if s, ok := d.read[name]; ok {
		return s, nil
	}
	data, ok := d.Components.Schemas[name]
	if !ok {
		return nil, nil
	}
	s := &spec.Schema{}
	if err := s.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	d.read[name] = s
	return s, nil
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
	kind, err := json.Marshal(gvk.Kind)
	if err != nil {
		return nil, err
	}
	for name, data := range doc.Components.Schemas {
		if !bytes.Contains(data, kind) {
			continue // it is not said to be of the kind, nor need it be read
		}
		one, err := doc.schema(name)
		if err != nil {
			return nil, err
		}
		if isOf(one, gvk) {
			return doc.expand(one, nil)
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
		doc = &document{read: map[string]*spec.Schema{}}
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
func (d *document) expand(s *spec.Schema, within []string) (*spec.Schema, error) {
	if name := refers(s); name != "" {
		if slices.Contains(within, name) {
			return anything(), nil
		}
		to, err := d.schema(name)
		if err != nil {
			return nil, err
		}
		if to == nil {
			return anything(), nil
		}
		return d.expand(to, append(within[:len(within):len(within)], name))
	}
	if len(s.Type) == 0 && len(s.Properties) == 0 {
		return anything(), nil
	}
	out := *s
	out.Properties = make(map[string]spec.Schema, len(s.Properties))
	for name, p := range s.Properties {
		whole, err := d.expand(&p, within)
		if err != nil {
			return nil, err
		}
		out.Properties[name] = *whole
	}
	var err error
	if s.Items != nil && s.Items.Schema != nil {
		out.Items = &spec.SchemaOrArray{}
		if out.Items.Schema, err = d.expand(s.Items.Schema, within); err != nil {
			return nil, err
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: true}
		if out.AdditionalProperties.Schema, err = d.expand(s.AdditionalProperties.Schema, within); err != nil {
			return nil, err
		}
	}
	return &out, nil
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
