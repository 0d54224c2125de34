package apply

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/setpoint-project/setpoint/internal/apiserver/listtypes"
)

// Names of the types whose values tell what they are.
const (
	deducedType = "__untyped_deduced_"
	atomicType  = "__untyped_atomic_"
)

// defs are the types of built-in kinds as structured merge knows them, derived
// from the Go types when first asked for: what merges with what stands in the
// patch tags, and in markers.go where those do not say it.
type defs struct {
	mu     sync.Mutex
	byType map[reflect.Type]*def // guarded by mu
}

// def is one named type.
type def struct {
	smd.TypeDef
	uses []*def // the named types that it refers to
}

func newDefs() *defs { return &defs{byType: map[reflect.Type]*def{}} }

// parseable is a Go type with all that it refers to.
func (d *defs) parseable(t reflect.Type) typed.ParseableType {
	d.mu.Lock()
	root := d.add(deref(t))
	d.mu.Unlock()
	s := &smd.Schema{Types: []smd.TypeDef{untypedAtomic, untypedDeduced}}
	seen := map[*def]bool{}
	var walk func(*def)
	walk = func(n *def) {
		if seen[n] {
			return
		}
		seen[n] = true
		s.Types = append(s.Types, n.TypeDef)
		for _, u := range n.uses {
			walk(u)
		}
	}
	walk(root)
	return typed.ParseableType{Schema: s, TypeRef: smd.TypeRef{NamedType: &root.Name}}
}

var (
	untyped        = smd.Untyped
	atomicRef      = smd.TypeRef{NamedType: ptr(atomicType)}
	deducedRef     = smd.TypeRef{NamedType: ptr(deducedType)}
	anyRef         = smd.TypeRef{Inlined: smd.Atom{Scalar: &untyped, List: untypedAtomic.List, Map: untypedDeduced.Map}}
	untypedAtomic  = smd.TypeDef{Name: atomicType, Atom: untypedAtom(atomicRef, smd.Atomic)}
	untypedDeduced = smd.TypeDef{Name: deducedType, Atom: untypedAtom(deducedRef, smd.Separable)}
)

// untypedAtom is anything: lists are atomic, maps as told.
func untypedAtom(element smd.TypeRef, maps smd.ElementRelationship) smd.Atom {
	return smd.Atom{
		Scalar: &untyped,
		List:   &smd.List{ElementType: atomicRef, ElementRelationship: smd.Atomic},
		Map:    &smd.Map{ElementType: element, ElementRelationship: maps},
	}
}

func ptr[T any](v T) *T { return &v }

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// What types tell about themselves.
type (
	modelNamer  interface{ OpenAPIModelName() string }
	schemaTyper interface{ OpenAPISchemaType() []string }
)

func nameOf(t reflect.Type) string {
	if n, ok := reflect.New(t).Interface().(modelNamer); ok {
		return n.OpenAPIModelName()
	}
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

// short is a type's name as markers.go lists it.
func short(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "io.k8s.api."), "io.k8s.apimachinery.pkg.")
}

// add makes the definition of a named struct. Callers hold the lock.
func (d *defs) add(t reflect.Type) *def {
	if n := d.byType[t]; n != nil {
		return n
	}
	n := &def{TypeDef: smd.TypeDef{Name: nameOf(t)}}
	d.byType[t] = n // now, since types may contain themselves
	switch short := short(n.Name); {
	case isAnything(t):
		n.Atom = untypedDeduced.Atom
	case isScalar(t):
		n.Atom = smd.Atom{Scalar: &untyped}
	case isObject(t):
		n.Atom = smd.Atom{Map: &smd.Map{ElementType: anyRef, ElementRelationship: smd.Separable}}
	default:
		m := &smd.Map{}
		if listtypes.AtomicStructs[short] {
			m.ElementRelationship = smd.Atomic
		}
		n.Atom = smd.Atom{Map: m}
		d.fields(n, m, t, short)
		slices.SortFunc(m.Fields, func(a, b smd.StructField) int { return strings.Compare(a.Name, b.Name) })
	}
	return n
}

// isScalar tells of a struct that is written as a string or a number.
func isScalar(t reflect.Type) bool {
	s, ok := reflect.New(t).Interface().(schemaTyper)
	return ok && !slices.Contains(s.OpenAPISchemaType(), "object")
}

// isAnything tells of a struct that may be written as any JSON.
func isAnything(t reflect.Type) bool {
	s, ok := reflect.New(t).Interface().(schemaTyper)
	return ok && len(s.OpenAPISchemaType()) == 0
}

// isObject tells of a struct that may have any fields: it has none of its own,
// or writes itself.
func isObject(t reflect.Type) bool {
	if t.NumField() == 0 {
		return true
	}
	_, ok := reflect.New(t).Interface().(json.Marshaler)
	return ok
}

// fields adds the fields of struct t, and of those inlined in it, to owner.
func (d *defs) fields(n *def, m *smd.Map, t reflect.Type, owner string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			if ft := deref(f.Type); ft.Kind() == reflect.Struct {
				d.fields(n, m, ft, owner)
			}
			continue
		}
		path := owner + "." + name
		sf := smd.StructField{Name: name, Type: d.ref(n, f, path), Default: keyDefaults[path]}
		m.Fields = append(m.Fields, sf)
	}
}

// ref is the type of a field.
func (d *defs) ref(n *def, f reflect.StructField, path string) smd.TypeRef {
	t := deref(f.Type)
	r := d.typeRef(n, t)
	if l := r.Inlined.List; l != nil {
		kind, keys := listMarker(f, path)
		if kind != "atomic" {
			l.ElementRelationship, l.Keys = smd.Associative, keys
		}
	}
	if opaque[path] {
		return atomicRef
	}
	if listtypes.Granular[path] {
		r.ElementRelationship = ptr(smd.Separable)
	}
	if listtypes.AtomicMaps[path] {
		if r.NamedType != nil {
			r.ElementRelationship = ptr(smd.Atomic)
		} else {
			r.Inlined.Map.ElementRelationship = smd.Atomic
		}
	}
	return r
}

var bytesType = reflect.TypeFor[[]byte]()

func (d *defs) typeRef(n *def, t reflect.Type) smd.TypeRef {
	t = deref(t)
	scalar := func(s smd.Scalar) smd.TypeRef { return smd.TypeRef{Inlined: smd.Atom{Scalar: &s}} }
	switch t.Kind() {
	case reflect.Struct:
		u := d.add(t)
		if !slices.Contains(n.uses, u) {
			n.uses = append(n.uses, u)
		}
		return smd.TypeRef{NamedType: &u.Name}
	case reflect.String:
		return scalar(smd.String)
	case reflect.Bool:
		return scalar(smd.Boolean)
	case reflect.Map:
		return smd.TypeRef{Inlined: smd.Atom{Map: &smd.Map{ElementType: d.typeRef(n, t.Elem())}}}
	case reflect.Slice, reflect.Array:
		if t.ConvertibleTo(bytesType) {
			return scalar(smd.String)
		}
		return smd.TypeRef{Inlined: smd.Atom{List: &smd.List{ElementType: d.typeRef(n, t.Elem()), ElementRelationship: smd.Atomic}}}
	case reflect.Interface:
		return deducedRef
	}
	return scalar(smd.Numeric)
}

// listMarker tells how the items of a list are merged: as a "map" by its keys,
// as a "set", or not at all ("atomic").
func listMarker(f reflect.StructField, path string) (kind string, keys []string) {
	if l, ok := listtypes.Of[path]; ok {
		return l.Kind, l.Keys
	}
	switch key := f.Tag.Get("patchMergeKey"); {
	case key != "":
		return "map", []string{key}
	case strings.Contains(f.Tag.Get("patchStrategy"), "merge"):
		return "set", nil
	}
	return "atomic", nil
}
