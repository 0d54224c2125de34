package openapi

import (
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Custom kinds bring their schema as JSON; what every object has is added to
// it here.

// customObject adds the model of a custom kind.
func (c *catalog) customObject(s served) string {
	name := customName(s.gvk())
	if c.byName[name] != nil {
		return name
	}
	m := &model{}
	c.byName[name] = m
	data, err := s.version.Schema.OpenAPI(!c.three)
	if err != nil || json.Unmarshal(data, m) != nil {
		// A schema that cannot be shown still lets everything through.
		*m = model{Type: "object", PreserveUnknown: true}
	}
	if m.PreserveUnknown && !c.three {
		// As upstream: readers of v2 take whatever is listed for all that may
		// be there, so nothing is.
		*m = model{Type: "object"}
	} else {
		c.embed(m)
		if m.Type == "" {
			m.Type = "object"
		}
		c.wholeObject(m)
	}
	m.GVKs = []gvk{{s.version.GroupVersion.Group, s.kind.VersionKind(s.version), s.version.GroupVersion.Version}}
	return name
}

// embed completes the objects that lie in fields.
func (c *catalog) embed(m *model) {
	if m == nil {
		return
	}
	if m.Embedded && (c.three || !m.PreserveUnknown) {
		c.wholeObject(m)
	}
	c.embed(m.Items)
	c.embed(m.AdditionalProperties)
	for _, p := range m.Properties {
		c.embed(p)
	}
}

// wholeObject adds what every object has.
func (c *catalog) wholeObject(m *model) {
	if m.Properties == nil {
		m.Properties = map[string]*model{}
	}
	docs := metav1.TypeMeta{}.SwaggerDoc()
	m.Properties["apiVersion"] = &model{Type: "string", Description: docs["apiVersion"]}
	m.Properties["kind"] = &model{Type: "string", Description: docs["kind"]}
	was := m.Properties["metadata"]
	meta := c.describe(c.ref(c.add(reflect.TypeFor[metav1.ObjectMeta]())), "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata")
	if was != nil && was.Description != "" {
		meta.Description = was.Description
	}
	m.Properties["metadata"] = meta
}

// customList adds the model of a list of a custom kind.
func (c *catalog) customList(s served) string {
	kind := s.kind.ListKind
	if kind == "" {
		kind = s.kind.VersionKind(s.version) + "List"
	}
	of := s.version.GroupVersion.WithKind(kind)
	name := customName(of)
	if c.byName[name] != nil {
		return name
	}
	docs, list := metav1.TypeMeta{}.SwaggerDoc(), metav1.List{}.SwaggerDoc()
	c.byName[name] = &model{
		Type: "object", Description: kind + " is a list of " + s.kind.VersionKind(s.version), Required: []string{"items"},
		Properties: map[string]*model{
			"apiVersion": {Type: "string", Description: docs["apiVersion"]},
			"kind":       {Type: "string", Description: docs["kind"]},
			"metadata":   c.describe(c.ref(c.add(reflect.TypeFor[metav1.ListMeta]())), list["metadata"]),
			"items": {
				Type: "array", Items: c.ref(c.customObject(s)),
				Description: "List of " + s.kind.Resource.Resource + ". More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
			},
		},
		GVKs: []gvk{{of.Group, of.Kind, of.Version}},
	}
	return name
}
