package apply

import (
	"encoding/json"
	"slices"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// looseNode is the plan for values that no Go type describes: what JSON is
// decoded into.
type looseNode struct {
	shape  shape
	fields map[string]*looseNode
	elem   *looseNode // of what is in no field; nil: as the value tells
	keys   []looseKey
}

type looseKey struct {
	name string
	def  string // its JSON when the item leaves it out; "": no default
}

// looseOf plans the values of a type. Nil: as each value tells.
func looseOf(s *smd.Schema, r smd.TypeRef) *looseNode {
	a, ok := s.Resolve(r)
	if !ok || a.Scalar != nil && (a.Map != nil || a.List != nil) {
		return nil
	}
	n := &looseNode{}
	switch {
	case a.Map != nil && a.Map.ElementRelationship != smd.Atomic:
		n.shape, n.fields = mapping, make(map[string]*looseNode, len(a.Map.Fields))
		for _, f := range a.Map.Fields {
			n.fields[f.Name] = looseOf(s, f.Type)
		}
		if a.Map.ElementType.NamedType != nil || a.Map.ElementType.Inlined != (smd.Atom{}) {
			n.elem = looseOf(s, a.Map.ElementType)
		}
	case a.List != nil && a.List.ElementRelationship == smd.Associative:
		n.shape, n.elem = scalars, looseOf(s, a.List.ElementType)
		if len(a.List.Keys) == 0 {
			break
		}
		n.shape = keyed
		item, _ := s.Resolve(a.List.ElementType)
		for _, name := range slices.Sorted(slices.Values(a.List.Keys)) {
			k := looseKey{name: name}
			if item.Map != nil {
				if f, ok := item.Map.FindField(name); ok && f.Default != nil {
					data, _ := json.Marshal(f.Default)
					k.def = string(data)
				}
			}
			n.keys = append(n.keys, k)
		}
	}
	return n
}

// looseFields are the plans of a custom kind's own fields.
func looseFields(t *typed.ParseableType) *looseNode {
	if n := looseOf(t.Schema, t.TypeRef); n != nil && n.shape == mapping {
		return n
	}
	return &looseNode{shape: mapping}
}

func (n *looseNode) field(name string) *looseNode {
	if n == nil {
		return nil
	}
	if f, ok := n.fields[name]; ok {
		return f
	}
	return n.elem
}

// looseSide is one of two values: none, null, or something.
type looseSide struct {
	v     any
	there bool
}

func (s looseSide) empty() bool {
	switch v := s.v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// body compares the fields of two objects.
func (d *diff) body(n *looseNode, a, b map[string]any, put, gone *[]set) {
	for name, v := range b {
		was, there := a[name]
		d.loose(n.field(name), "f:"+name, looseSide{was, there}, looseSide{v, true}, put, gone)
	}
	for name, v := range a {
		if _, there := b[name]; !there {
			d.loose(n.field(name), "f:"+name, looseSide{v, true}, looseSide{}, put, gone)
		}
	}
}

// loose compares two values in one place, of which one at least is there.
func (d *diff) loose(n *looseNode, key string, l, r looseSide, put, gone *[]set) {
	form := leaf
	if n != nil {
		form = n.shape
	} else {
		_, one := l.v.(map[string]any)
		_, two := r.v.(map[string]any)
		if (one || l.v == nil) && (two || r.v == nil) && (one || two) {
			form = mapping
		} else if one != two && l.there && r.there {
			d.doubled = true // another form than before: the library knows what to do
			return
		}
	}
	if form == leaf || l.empty() && r.empty() {
		switch {
		case !l.there:
			*put = append(*put, set{key: key, self: true})
		case !r.there:
			*gone = append(*gone, set{key: key, self: true})
		case !sameAny(l.v, r.v):
			*put = append(*put, set{key: key, self: true})
		}
		return
	}
	var set1, gone1 []set
	if form == mapping {
		a, ok1 := l.v.(map[string]any)
		b, ok2 := r.v.(map[string]any)
		if !ok1 && l.v != nil || !ok2 && r.v != nil {
			d.doubled = true
			return
		}
		d.body(n, a, b, &set1, &gone1)
	} else {
		a, ok1 := l.v.([]any)
		b, ok2 := r.v.([]any)
		if !ok1 && l.v != nil || !ok2 && r.v != nil {
			d.doubled = true
			return
		}
		d.looseItems(n, a, b, &set1, &gone1)
	}
	order(set1)
	order(gone1)
	if len(set1) > 0 || !l.there {
		*put = append(*put, set{key: key, self: !l.there, kids: set1})
	}
	if len(gone1) > 0 || !r.there {
		*gone = append(*gone, set{key: key, self: !r.there, kids: gone1})
	}
}

func (d *diff) looseItems(n *looseNode, a, b []any, put, gone *[]set) {
	was := make(map[string]any, len(a))
	for _, v := range a {
		key := n.itemKey(v)
		if _, twice := was[key]; twice || key == "" {
			d.doubled = true
			return
		}
		was[key] = v
	}
	is := make(map[string]bool, len(b))
	for _, v := range b {
		key := n.itemKey(v)
		if is[key] || key == "" {
			d.doubled = true
			return
		}
		is[key] = true
		old, there := was[key]
		d.loose(n.elem, key, looseSide{old, there}, looseSide{v, true}, put, gone)
	}
	for key, v := range was {
		if !is[key] {
			d.loose(n.elem, key, looseSide{v, true}, looseSide{}, put, gone)
		}
	}
}

// itemKey is the key of a list item; "" when it has none.
func (n *looseNode) itemKey(v any) string {
	if n.shape == scalars {
		switch v.(type) {
		case string, int64, float64, bool:
			data, _ := json.Marshal(v)
			return "v:" + string(data)
		}
		return ""
	}
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	b := append(make([]byte, 0, 64), "k:{"...)
	some := false
	for _, k := range n.keys {
		x, there := m[k.name]
		if !there && k.def == "" {
			continue
		}
		if some {
			b = append(b, ',')
		}
		some = true
		b = append(appendString(b, k.name), ':')
		if !there {
			b = append(b, k.def...)
			continue
		}
		data, _ := json.Marshal(x)
		b = append(b, data...)
	}
	if !some {
		return ""
	}
	return string(append(b, '}'))
}

// sameAny tells whether two JSON values are the same. 1 and 1.0 are.
func sameAny(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, ok := y[k]; !ok || !sameAny(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !sameAny(x[i], y[i]) {
				return false
			}
		}
		return true
	case int64:
		if y, ok := b.(float64); ok {
			return float64(x) == y
		}
	case float64:
		if y, ok := b.(int64); ok {
			return x == float64(y)
		}
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
