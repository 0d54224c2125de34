package openapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/listtypes"
)

// What types tell about themselves.
type (
	modelNamer  interface{ OpenAPIModelName() string }
	schemaTyper interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}
	oneOfTyper interface{ OpenAPIV3OneOfTypes() []string }
	documented interface{ SwaggerDoc() map[string]string }
)

// models are the schemas of types, by name, with all that they refer to.
type models struct {
	dialect
	byName map[string]*model
}

func newModels(d dialect) *models { return &models{dialect: d, byName: map[string]*model{}} }

// kind adds the model of an object's type and tells for which kind it is.
func (m *models) kind(obj any, of schema.GroupVersionKind) (name string) {
	t := reflect.TypeOf(obj).Elem()
	name = nameOf(t)
	if !strings.HasPrefix(name, "io.k8s.") || len(t.PkgPath()) == 0 || t.Name() == "Unstructured" || t.Name() == "UnstructuredList" {
		// No Go type says what is in it.
		name = customName(of)
		m.byName[name] = &model{Type: "object", PreserveUnknown: true}
	} else {
		m.add(t)
	}
	said := gvk{of.Group, of.Kind, of.Version}
	if mod := m.byName[name]; !slices.Contains(mod.GVKs, said) {
		mod.GVKs = append(mod.GVKs, said)
	}
	return name
}

// customName is the name of a custom kind's model: com.example.v1.Widget.
func customName(of schema.GroupVersionKind) string {
	parts := strings.Split(of.Group, ".")
	slices.Reverse(parts)
	return strings.Join(append(parts, of.Version, of.Kind), ".")
}

func nameOf(t reflect.Type) string {
	if n, ok := reflect.New(t).Interface().(modelNamer); ok {
		return n.OpenAPIModelName()
	}
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

// add adds the model of a named struct and returns its name.
func (m *models) add(t reflect.Type) string {
	name := nameOf(t)
	if m.byName[name] != nil {
		return name
	}
	mod := &model{}
	m.byName[name] = mod // now, since types may contain themselves
	docs := docsOf(t)
	mod.Description = docs[""]
	if typer, ok := reflect.New(t).Interface().(schemaTyper); ok {
		m.scalar(mod, typer)
		return name
	}
	mod.Type = "object"
	if listtypes.AtomicStructs[short(name)] {
		mod.MapType = "atomic"
	}
	if t.Kind() == reflect.Struct {
		m.fields(mod, t, docs, short(name))
	}
	return name
}

// scalar describes a struct that is written as something else.
func (m *models) scalar(mod *model, typer schemaTyper) {
	if types := typer.OpenAPISchemaType(); len(types) > 0 {
		mod.Type, mod.Format = types[0], typer.OpenAPISchemaFormat()
	}
	if one, ok := typer.(oneOfTyper); ok && m.three {
		mod.Type = ""
		for _, t := range one.OpenAPIV3OneOfTypes() {
			mod.OneOf = append(mod.OneOf, &model{Type: t})
		}
	}
}

func docsOf(t reflect.Type) map[string]string {
	if d, ok := reflect.New(t).Interface().(documented); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// fields adds the fields of struct t to mod, which is owner's model.
func (m *models) fields(mod *model, t reflect.Type, docs map[string]string, owner string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		inline := strings.Contains(options, "inline")
		if inline || f.Anonymous && name == "" {
			if ft := deref(f.Type); ft.Kind() == reflect.Struct {
				m.fields(mod, ft, docsOf(ft), owner)
			}
			continue
		}
		if name == "" || !f.IsExported() {
			continue
		}
		p := m.typed(f.Type)
		m.patch(p, f, owner+"."+name)
		switch field := owner + "." + name; {
		case listtypes.AtomicMaps[field]:
			p.MapType = "atomic"
		case listtypes.Granular[field]:
			p.MapType = "granular"
		}
		if m.three && p.Ref != "" && (p.MapType != "" || (strings.HasPrefix(owner, apiextensions) || strings.HasPrefix(owner, aggregator)) && !undocumented[name]) {
			p.AllOf, p.Ref = []*model{{Ref: p.Ref}}, ""
		}
		if d := docs[name]; d != "" {
			p = m.describe(p, d)
		}
		if mod.Properties == nil {
			mod.Properties = map[string]*model{}
		}
		mod.Properties[name] = p
		if m.three {
			m.standard(p, f, options, owner+"."+name)
		}
		if required(owner, name, options) && !slices.Contains(mod.Required, name) {
			mod.Required = append(mod.Required, name)
		}
	}
}

// standard says in v3 what a field is that was left out: what is listed, else
// the zero value of what is no pointer.
func (m *models) standard(p *model, f reflect.StructField, options, field string) {
	if d, ok := standards[field]; ok {
		p.Default = json.RawMessage(d)
		return
	}
	omits := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
	switch k := f.Type.Kind(); {
	case k == reflect.Struct:
		// What is written as something else, or as anything, has no zero value
		// of its own.
		v := reflect.New(f.Type).Interface()
		_, other := v.(schemaTyper)
		if _, itself := v.(json.Marshaler); !other && !itself {
			p.Default = json.RawMessage(`{}`)
		}
	case omits:
		return
	case k == reflect.String:
		p.Default = json.RawMessage(`""`)
	case k == reflect.Bool:
		p.Default = json.RawMessage(`false`)
	case f.Type.Kind() >= reflect.Int && f.Type.Kind() <= reflect.Float64:
		p.Default = json.RawMessage(`0`)
	}
	if p.Default != nil && p.Ref != "" {
		p.AllOf, p.Ref = []*model{{Ref: p.Ref}}, ""
	}
}

// apiextensions and aggregator are types whose fields are documented in comments only: what is
// beside a reference there, but for some, shows in the form of it.
const (
	apiextensions = "io.k8s.apiextensions-apiserver."
	aggregator    = "io.k8s.kube-aggregator."
)

var undocumented = map[string]bool{"additionalItems": true, "additionalProperties": true, "example": true, "externalDocs": true, "items": true, "not": true}

// describe puts a description beside what may be a reference; OpenAPI v3
// allows nothing beside one.
func (m *models) describe(p *model, text string) *model {
	if p.Ref != "" && m.three {
		ref := p.Ref
		p.Ref, p.AllOf = "", []*model{{Ref: ref}}
	}
	p.Description = text
	return p
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

var bytesType = reflect.TypeFor[[]byte]()

// typed describes a field's type.
func (m *models) typed(t reflect.Type) *model {
	t = deref(t)
	switch t.Kind() {
	case reflect.Struct:
		return m.ref(m.add(t))
	case reflect.String:
		return &model{Type: "string"}
	case reflect.Bool:
		return &model{Type: "boolean"}
	case reflect.Int64, reflect.Int, reflect.Uint64:
		return &model{Type: "integer", Format: "int64"}
	case reflect.Int32, reflect.Int16, reflect.Int8, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		return &model{Type: "integer", Format: "int32"}
	case reflect.Float64:
		return &model{Type: "number", Format: "double"}
	case reflect.Float32:
		return &model{Type: "number", Format: "float"}
	case reflect.Map:
		return &model{Type: "object", AdditionalProperties: m.typed(t.Elem())}
	case reflect.Slice, reflect.Array:
		if t.ConvertibleTo(bytesType) {
			return &model{Type: "string", Format: "byte"}
		}
		return &model{Type: "array", Items: m.typed(t.Elem())}
	}
	return &model{Type: "object"} // an interface: anything
}

// patch tells how a strategic merge patch treats the field, and by that what
// kind of list it is.
func (m *models) patch(p *model, f reflect.StructField, field string) {
	p.PatchStrategy = f.Tag.Get("patchStrategy")
	p.PatchMergeKey = f.Tag.Get("patchMergeKey")
	if p.Ref != "" && p.PatchStrategy != "" && m.three {
		p.AllOf, p.Ref = []*model{{Ref: p.Ref}}, ""
	}
	if p.Type != "array" {
		return
	}
	switch {
	case p.PatchMergeKey != "":
		p.ListType, p.ListMapKeys = "map", []string{p.PatchMergeKey}
	case p.PatchStrategy == "merge":
		p.ListType = "set"
	case !strings.HasSuffix(field, "List.items"): // of a list of objects: nobody merges those
		p.ListType = "atomic"
	}
	if l, ok := listtypes.Of[field]; ok {
		p.ListType, p.ListMapKeys = l.Kind, l.Keys
	}
}

// required tells whether a field must be there: when its tag does not let it
// be left out when empty, as the API's conventions have it.
// https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#optional-vs-required
func required(owner, name, options string) bool {
	if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
		return slices.Contains(mandatory[owner], name)
	}
	return !slices.Contains(optional[owner], name)
}

// short is a model's name as the exceptions are listed.
func short(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "io.k8s.api."), "io.k8s.apimachinery.pkg.")
}
