package openapi

import (
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Protobuf form of a v2 document, as github.com/google/gnostic-models defines
// it (openapiv2/OpenAPIv2.proto; the numbers below are its field numbers). It
// is written by hand: going through that library would parse the document
// again as YAML, at a hundred times the cost.

func (s *snapshot) protobufV2() []byte {
	doc := s.docV2()
	var b []byte
	b = text(b, 1, doc.Swagger)
	b = message(b, 2, text(text(nil, 1, doc.Info.Title), 2, doc.Info.Version))
	var paths []byte
	for _, name := range slices.Sorted(maps.Keys(doc.Paths)) {
		paths = message(paths, 2, named(name, doc.Paths[name].protobuf()))
	}
	b = message(b, 8, paths)
	b = message(b, 9, properties(doc.Definitions))
	b = message(b, 12, message(nil, 1, named("BearerToken", nil)))
	scheme := bearer["BearerToken"]
	key := text(text(text(text(nil, 1, scheme.Type), 2, scheme.Name), 3, scheme.In), 4, scheme.Description)
	return message(b, 13, message(nil, 1, named("BearerToken", message(nil, 2, key))))
}

func text(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

func texts(b []byte, field protowire.Number, list []string) []byte {
	for _, s := range list {
		b = text(b, field, s)
	}
	return b
}

func message(b []byte, field protowire.Number, m []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, m)
}

func boolean(b []byte, field protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, 1)
}

// named is any of the Named... messages: a name and a value.
func named(name string, value []byte) []byte {
	return message(text(nil, 1, name), 2, value)
}

// extension is a field x-..., whose value is written as YAML; JSON is YAML.
func extension(b []byte, field protowire.Number, name string, value any) []byte {
	return message(b, field, named(name, text(nil, 2, string(marshal(value)))))
}

func properties(models map[string]*model) []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(models)) {
		b = message(b, 1, named(name, models[name].protobuf()))
	}
	return b
}

func (m *model) protobuf() []byte {
	var b []byte
	b = text(b, 1, m.Ref)
	b = text(b, 2, m.Format)
	b = text(b, 3, m.Title)
	b = text(b, 4, m.Description)
	b = literal(b, 5, m.Default)
	b = m.limits(b)
	b = texts(b, 19, m.Required)
	for _, v := range m.Enum {
		b = literal(b, 20, v)
	}
	if m.AdditionalProperties != nil {
		b = message(b, 21, message(nil, 1, m.AdditionalProperties.protobuf()))
	}
	if m.Type != "" {
		b = message(b, 22, text(nil, 1, m.Type))
	}
	if m.Items != nil {
		b = message(b, 23, message(nil, 1, m.Items.protobuf()))
	}
	for _, one := range m.AllOf {
		b = message(b, 24, one.protobuf())
	}
	if len(m.Properties) > 0 {
		b = message(b, 25, properties(m.Properties))
	}
	if m.ListMapKeys != nil {
		b = extension(b, 31, "x-kubernetes-list-map-keys", m.ListMapKeys)
	}
	for _, x := range []struct{ name, value string }{
		{"x-kubernetes-list-type", m.ListType},
		{"x-kubernetes-map-type", m.MapType},
		{"x-kubernetes-patch-merge-key", m.PatchMergeKey},
		{"x-kubernetes-patch-strategy", m.PatchStrategy},
	} {
		if x.value != "" {
			b = extension(b, 31, x.name, x.value)
		}
	}
	if m.PreserveUnknown {
		b = extension(b, 31, "x-kubernetes-preserve-unknown-fields", true)
	}
	if m.IntOrString {
		b = extension(b, 31, "x-kubernetes-int-or-string", true)
	}
	if m.Embedded {
		b = extension(b, 31, "x-kubernetes-embedded-resource", true)
	}
	if m.Validations != nil {
		b = extension(b, 31, "x-kubernetes-validations", m.Validations)
	}
	if m.GVKs != nil {
		b = extension(b, 31, "x-kubernetes-group-version-kind", m.GVKs)
	}
	return b
}

// limits are the ranges of numbers and sizes.
func (m *model) limits(b []byte) []byte {
	double := func(field protowire.Number, v *float64) {
		if v != nil {
			b = protowire.AppendTag(b, field, protowire.Fixed64Type)
			b = protowire.AppendFixed64(b, math.Float64bits(*v))
		}
	}
	integer := func(field protowire.Number, v *int64) {
		if v != nil {
			b = protowire.AppendTag(b, field, protowire.VarintType)
			b = protowire.AppendVarint(b, uint64(*v))
		}
	}
	double(6, m.MultipleOf)
	double(7, m.Maximum)
	b = boolean(b, 8, m.ExclusiveMaximum)
	double(9, m.Minimum)
	b = boolean(b, 10, m.ExclusiveMinimum)
	integer(11, m.MaxLength)
	integer(12, m.MinLength)
	b = text(b, 13, m.Pattern)
	integer(14, m.MaxItems)
	integer(15, m.MinItems)
	b = boolean(b, 16, m.UniqueItems)
	integer(17, m.MaxProperties)
	integer(18, m.MinProperties)
	return b
}

// literal is a value of any type, written as YAML.
func literal(b []byte, field protowire.Number, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	return message(b, field, text(nil, 2, string(value)))
}

func (p *pathV2) protobuf() []byte {
	var b []byte
	for _, one := range []struct {
		field protowire.Number
		op    *operationV2
	}{{2, p.Get}, {3, p.Put}, {4, p.Post}, {5, p.Delete}, {6, p.Options}, {7, p.Head}, {8, p.Patch}} {
		if one.op != nil {
			b = message(b, one.field, one.op.protobuf())
		}
	}
	for _, param := range p.Parameters {
		b = message(b, 9, param.protobuf())
	}
	return b
}

func (o *operationV2) protobuf() []byte {
	var b []byte
	b = texts(b, 1, o.Tags)
	b = text(b, 3, o.Description)
	b = text(b, 5, o.OperationID)
	b = texts(b, 6, o.Produces)
	b = texts(b, 7, o.Consumes)
	for _, p := range o.Parameters {
		b = message(b, 8, p.protobuf())
	}
	var responses []byte
	for _, code := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[code]
		body := text(nil, 1, r.Description)
		if r.Schema != nil {
			body = message(body, 2, message(nil, 1, r.Schema.protobuf()))
		}
		responses = message(responses, 1, named(code, message(nil, 1, body)))
	}
	b = message(b, 9, responses)
	b = texts(b, 10, o.Schemes)
	if o.GVK == nil {
		return b
	}
	b = extension(b, 13, "x-kubernetes-action", o.Action)
	return extension(b, 13, "x-kubernetes-group-version-kind", o.GVK)
}

// protobuf returns a ParametersItem.
func (p *parameterV2) protobuf() []byte {
	if p.In == "body" {
		body := text(nil, 1, p.Description)
		body = text(body, 2, p.Name)
		body = text(body, 3, p.In)
		body = boolean(body, 4, p.Required)
		body = message(body, 5, p.Schema.protobuf())
		return message(nil, 1, message(nil, 1, body))
	}
	simple := boolean(nil, 1, p.Required)
	simple = text(simple, 2, p.In)
	simple = text(simple, 3, p.Description)
	simple = text(simple, 4, p.Name)
	if p.In == "path" {
		return message(nil, 1, message(nil, 2, message(nil, 4, text(simple, 5, p.Type))))
	}
	return message(nil, 1, message(nil, 2, message(nil, 3, text(simple, 6, p.Type))))
}
