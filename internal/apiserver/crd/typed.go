package crd

import (
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Typed implements kinds.Schema.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy
func (s Schema) Typed() *typed.ParseableType {
	sh, err := s.version.shape()
	if err != nil || sh.structural == nil || s.version.preserve {
		return &typed.DeducedParseableType
	}
	name := "object"
	types := &smd.Schema{Types: []smd.TypeDef{
		{Name: name, Atom: wholeAtom(sh.structural)}, atomicType, deducedType,
	}}
	return &typed.ParseableType{Schema: types, TypeRef: smd.TypeRef{NamedType: &name}}
}

// Names of anything: merged as a whole, or as its form lets one guess.
const (
	atomicName  = "__untyped_atomic_"
	deducedName = "__untyped_deduced_"
)

var (
	untyped     = smd.Untyped
	atomicType  = smd.TypeDef{Name: atomicName, Atom: anything(atomicName, smd.Atomic)}
	deducedType = smd.TypeDef{Name: deducedName, Atom: anything(deducedName, smd.Separable)}
)

func named(name string) smd.TypeRef { return smd.TypeRef{NamedType: &name} }

func anything(element string, maps smd.ElementRelationship) smd.Atom {
	return smd.Atom{
		Scalar: &untyped,
		List:   &smd.List{ElementType: named(atomicName), ElementRelationship: smd.Atomic},
		Map:    &smd.Map{ElementType: named(element), ElementRelationship: maps},
	}
}

// wholeAtom is that of a whole object.
func wholeAtom(s *schema.Structural) smd.Atom {
	a := atom(s)
	if a.Map == nil {
		return anything(deducedName, smd.Separable)
	}
	m := &smd.Map{ElementType: a.Map.ElementType, ElementRelationship: a.Map.ElementRelationship}
	for _, f := range a.Map.Fields {
		if f.Name != "apiVersion" && f.Name != "kind" && f.Name != "metadata" {
			m.Fields = append(m.Fields, f)
		}
	}
	text := smd.TypeRef{Inlined: scalar(smd.String)}
	m.Fields = append(m.Fields, smd.StructField{Name: "apiVersion", Type: text}, smd.StructField{Name: "kind", Type: text},
		smd.StructField{Name: "metadata", Type: metadata})
	return smd.Atom{Map: m}
}

func scalar(s smd.Scalar) smd.Atom { return smd.Atom{Scalar: &s} }

// atom is how a part of an object is merged.
func atom(s *schema.Structural) smd.Atom {
	switch {
	case s == nil:
		return anything(deducedName, smd.Separable)
	case s.XIntOrString:
		return scalar(smd.Untyped)
	}
	switch s.Type {
	case "object":
		return smd.Atom{Map: mapAtom(s)}
	case "array":
		return smd.Atom{List: listAtom(s)}
	case "string":
		return scalar(smd.String)
	case "boolean":
		return scalar(smd.Boolean)
	case "integer", "number":
		return scalar(smd.Numeric)
	}
	return anything(deducedName, smd.Separable)
}

func ref(s *schema.Structural) smd.TypeRef {
	if s != nil && s.XEmbeddedResource {
		return smd.TypeRef{Inlined: wholeAtom(withoutEmbedding(s))}
	}
	return smd.TypeRef{Inlined: atom(s)}
}

// withoutEmbedding is s as the fields of an object are described.
func withoutEmbedding(s *schema.Structural) *schema.Structural {
	out := *s
	out.XEmbeddedResource = false
	return &out
}

func mapAtom(s *schema.Structural) *smd.Map {
	m := &smd.Map{ElementRelationship: smd.Separable}
	if s.XMapType != nil && *s.XMapType == "atomic" {
		m.ElementRelationship = smd.Atomic
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		m.Fields = append(m.Fields, smd.StructField{Name: name, Type: ref(&p), Default: p.Default.Object})
	}
	switch {
	case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
		m.ElementType = ref(s.AdditionalProperties.Structural)
	case s.XPreserveUnknownFields || s.AdditionalProperties != nil || len(s.Properties) == 0:
		m.ElementType = named(deducedName)
	}
	return m
}

func listAtom(s *schema.Structural) *smd.List {
	l := &smd.List{ElementType: ref(s.Items), ElementRelationship: smd.Atomic}
	if s.XListType != nil {
		switch *s.XListType {
		case "set":
			l.ElementRelationship = smd.Associative
		case "map":
			l.ElementRelationship, l.Keys = smd.Associative, s.XListMapKeys
		}
	}
	return l
}

// metadata is how ObjectMeta is merged.
var metadata = func() smd.TypeRef {
	str, num, bul := smd.TypeRef{Inlined: scalar(smd.String)}, smd.TypeRef{Inlined: scalar(smd.Numeric)}, smd.TypeRef{Inlined: scalar(smd.Boolean)}
	any := named(atomicName)
	texts := smd.TypeRef{Inlined: smd.Atom{Map: &smd.Map{ElementType: str, ElementRelationship: smd.Separable}}}
	owner := smd.Atom{Map: &smd.Map{ElementRelationship: smd.Atomic, Fields: []smd.StructField{
		{Name: "apiVersion", Type: str}, {Name: "blockOwnerDeletion", Type: bul}, {Name: "controller", Type: bul},
		{Name: "kind", Type: str}, {Name: "name", Type: str}, {Name: "uid", Type: str},
	}}}
	return smd.TypeRef{Inlined: smd.Atom{Map: &smd.Map{ElementRelationship: smd.Separable, Fields: []smd.StructField{
		{Name: "annotations", Type: texts}, {Name: "labels", Type: texts},
		{Name: "creationTimestamp", Type: any}, {Name: "deletionTimestamp", Type: any},
		{Name: "deletionGracePeriodSeconds", Type: num}, {Name: "generation", Type: num},
		{Name: "finalizers", Type: smd.TypeRef{Inlined: smd.Atom{List: &smd.List{ElementType: str, ElementRelationship: smd.Associative}}}},
		{Name: "generateName", Type: str}, {Name: "name", Type: str}, {Name: "namespace", Type: str},
		{Name: "resourceVersion", Type: str}, {Name: "selfLink", Type: str}, {Name: "uid", Type: str},
		{Name: "managedFields", Type: any},
		{Name: "ownerReferences", Type: smd.TypeRef{Inlined: smd.Atom{List: &smd.List{
			ElementType: smd.TypeRef{Inlined: owner}, ElementRelationship: smd.Associative, Keys: []string{"uid"},
		}}}},
	}}}}
}()
