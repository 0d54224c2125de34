package apply

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/setpoint-project/setpoint/internal/apiserver/listtypes"
)

// shape is how the fields of a value are tracked.
type shape uint8

const (
	leaf    shape = iota // as a whole: a scalar, or something atomic
	record               // a struct, field by field
	mapping              // a map, key by key
	keyed                // a list, by the keys of its items
	scalars              // a list, by its items
)

// node is the plan for the values of one Go type in one place.
type node struct {
	shape  shape
	typ    reflect.Type
	fields []planField // of a struct, by name
	elem   *node       // of a map or a list
	keys   []planKey   // of a keyed list, by name
	zero   reflect.Value
	// loose tells that a value writes itself: how to compare it stands in the
	// conversion of its type.
	loose *value.TypeReflectCacheEntry
	same  func(a, b reflect.Value) bool // of a leaf; nil: by its parts
}

type planField struct {
	key   string // "f:name"
	index []int
	node  *node
	empty bool                     // left out when empty
	none  func(reflect.Value) bool // left out when zero
}

// planKey is one key of a list item.
type planKey struct {
	name  string
	field *planField
	def   string // its JSON when the item leaves it out; "": no default
}

// plans make nodes from Go types, by the same markers as the schemas.
type plans struct {
	mu    sync.Mutex
	nodes map[planKind]*node // guarded by mu
}

// planKind is a struct type, and whether it is tracked as a whole here.
type planKind struct {
	typ    reflect.Type
	atomic bool
}

func newPlans() *plans { return &plans{nodes: map[planKind]*node{}} }

// of is the plan for an object's type. What says who an object is, and what
// only the server sets, is in no plan: it belongs to nobody.
func (p *plans) of(t reflect.Type) *node {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := *p.structure(deref(t), false)
	n.fields = slices.DeleteFunc(slices.Clone(n.fields), func(f planField) bool { return f.key == "f:apiVersion" || f.key == "f:kind" })
	for i := range n.fields {
		if f := &n.fields[i]; f.key == "f:metadata" {
			meta := *f.node
			meta.fields = slices.DeleteFunc(slices.Clone(meta.fields), func(f planField) bool { return nobodys[f.key] })
			f.node = &meta
		}
	}
	return &n
}

// metadata is the plan for what every object has, but what belongs to nobody.
func (p *plans) metadata() *node {
	n := p.of(reflect.TypeFor[metav1.PartialObjectMetadata]())
	return n.fields[0].node
}

// nobodys are the fields of metadata that no manager owns.
var nobodys = map[string]bool{
	"f:name": true, "f:namespace": true, "f:creationTimestamp": true, "f:selfLink": true, "f:uid": true,
	"f:clusterName": true, "f:generation": true, "f:managedFields": true, "f:resourceVersion": true,
}

// structure plans a struct. Callers hold the lock.
func (p *plans) structure(t reflect.Type, atomic bool) *node {
	name := short(nameOf(t))
	k := planKind{t, atomic}
	if n := p.nodes[k]; n != nil {
		return n
	}
	n := &node{typ: t, shape: record, zero: reflect.Zero(t)}
	p.nodes[k] = n
	if entry := value.TypeReflectEntryOf(t); entry.CanConvertToUnstructured() {
		n.shape, n.loose, n.same = leaf, entry, sameFunc(t)
		return n
	}
	p.fields(n, t, nil, name)
	slices.SortFunc(n.fields, func(a, b planField) int { return strings.Compare(a.key, b.key) })
	if atomic {
		n.shape = leaf
	}
	return n
}

func (p *plans) fields(n *node, t reflect.Type, at []int, owner string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		index := append(slices.Clone(at), i)
		if name == "" {
			if ft := deref(f.Type); ft.Kind() == reflect.Struct {
				p.fields(n, ft, index, owner)
			}
			continue
		}
		pf := planField{key: "f:" + name, index: index, node: p.field(f, owner+"."+name)}
		for o := range strings.SplitSeq(options, ",") {
			switch o {
			case "omitempty":
				pf.empty = true
			case "omitzero":
				pf.none = value.OmitZeroFunc(f.Type)
			}
		}
		n.fields = append(n.fields, pf)
	}
}

// field plans a field in its place.
func (p *plans) field(f reflect.StructField, path string) *node {
	t := deref(f.Type)
	switch t.Kind() {
	case reflect.Struct:
		whole := listtypes.AtomicStructs[short(nameOf(t))] && !listtypes.Granular[path] || listtypes.AtomicMaps[path] || opaque[path]
		return p.structure(t, whole)
	case reflect.Map:
		n := &node{typ: t, shape: mapping, elem: p.value(t.Elem()), zero: reflect.Zero(t)}
		if listtypes.AtomicMaps[path] {
			n.shape = leaf
		}
		return n
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			break
		}
		n := &node{typ: t, shape: leaf, elem: p.value(t.Elem()), zero: reflect.Zero(t)}
		switch kind, keys := listMarker(f, path); kind {
		case "map":
			n.shape = keyed
			n.keys = p.keys(n.elem, keys, short(nameOf(deref(t.Elem()))))
		case "set":
			n.shape = scalars
		}
		return n
	}
	return p.value(t)
}

func (p *plans) keys(item *node, names []string, owner string) []planKey {
	names = slices.Sorted(slices.Values(names))
	out := make([]planKey, 0, len(names))
	for _, name := range names {
		k := planKey{name: name}
		for i := range item.fields {
			if item.fields[i].key == "f:"+name {
				k.field = &item.fields[i]
			}
		}
		if d, ok := keyDefaults[owner+"."+name]; ok {
			data, _ := json.Marshal(d)
			k.def = string(data)
		}
		out = append(out, k)
	}
	return out
}

// value plans what is in a map or a list.
func (p *plans) value(t reflect.Type) *node {
	t = deref(t)
	n := &node{typ: t, shape: leaf, zero: reflect.Zero(t)}
	switch t.Kind() {
	case reflect.Struct:
		return p.structure(t, listtypes.AtomicStructs[short(nameOf(t))])
	case reflect.Map:
		n.shape, n.elem = mapping, p.value(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			n.elem = p.value(t.Elem())
		}
	}
	return n
}

// sameFunc compares what writes itself, without writing it. Nil: it must.
func sameFunc(t reflect.Type) func(a, b reflect.Value) bool {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return compared(func(a, b *metav1.Time) bool { return a.IsZero() == b.IsZero() && a.Unix() == b.Unix() })
	case reflect.TypeFor[metav1.MicroTime]():
		return compared(func(a, b *metav1.MicroTime) bool { return a.IsZero() == b.IsZero() && a.UnixMicro() == b.UnixMicro() })
	case reflect.TypeFor[metav1.Duration]():
		return compared(func(a, b *metav1.Duration) bool { return a.Duration == b.Duration })
	case reflect.TypeFor[intstr.IntOrString]():
		return compared(func(a, b *intstr.IntOrString) bool { return a.String() == b.String() && a.Type == b.Type })
	case reflect.TypeFor[resource.Quantity]():
		return compared(func(a, b *resource.Quantity) bool {
			x, y := *a, *b // String keeps what it made
			return x.Format == y.Format && x.Cmp(y) == 0 || x.String() == y.String()
		})
	}
	return nil
}

// compared reaches the values without copying them to the heap where it can.
func compared[T any](same func(a, b *T) bool) func(a, b reflect.Value) bool {
	reach := func(v reflect.Value) *T {
		if v.CanAddr() {
			return v.Addr().Interface().(*T)
		}
		out := v.Interface().(T)
		return &out
	}
	return func(a, b reflect.Value) bool { return same(reach(a), reach(b)) }
}
