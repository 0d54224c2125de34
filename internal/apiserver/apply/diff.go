package apply

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// diff is what a write did: the fields that it set, anew or to something else,
// and those that it took away.
type diff struct {
	set, gone []set
	// doubled tells that a list has two items with one key, which the merge
	// library has rules for.
	doubled bool
}

// compare finds what makes b of a. Both are structs of n's type.
func compare(n *node, a, b reflect.Value) diff {
	var d diff
	d.record(n, a, b, &d.set, &d.gone)
	return d
}

// side is one of the two values: none, null, or something.
type side struct {
	reflect.Value
	there bool // it may be null all the same
	null  bool
}

// at reads a field of a struct.
func (f *planField) at(v reflect.Value) side {
	for i, x := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return side{}
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	if f.empty && isEmpty(v) || f.none != nil && f.none(v) {
		return side{}
	}
	return some(v)
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		return false
	case reflect.Pointer:
		return v.IsNil()
	}
	return v.IsZero()
}

// some is a value that is there.
func some(v reflect.Value) side {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return side{there: true, null: true}
		}
		v = v.Elem()
	case reflect.Slice, reflect.Map:
		if v.IsNil() {
			return side{there: true, null: true}
		}
	}
	return side{Value: v, there: true}
}

// record compares two structs field by field.
func (d *diff) record(n *node, a, b reflect.Value, put, gone *[]set) {
	for i := range n.fields {
		f := &n.fields[i]
		l, r := f.at(a), f.at(b)
		if !l.there && !r.there {
			continue
		}
		d.field(f.node, f.key, l, r, put, gone)
	}
}

// field compares two values in one place, of which one at least is there, and
// adds what it finds under key.
func (d *diff) field(n *node, key string, l, r side, put, gone *[]set) {
	if n.shape == leaf || hollow(n, l) && hollow(n, r) {
		switch {
		case !l.there:
			*put = append(*put, set{key: key, self: true})
		case !r.there:
			*gone = append(*gone, set{key: key, self: true})
		case !same(n, l, r):
			*put = append(*put, set{key: key, self: true})
		}
		return
	}
	var set1, gone1 []set
	switch n.shape {
	case record:
		a, b := n.zero, n.zero
		if l.there && !l.null {
			a = l.Value
		}
		if r.there && !r.null {
			b = r.Value
		}
		d.parts(n, l, r, a, b, &set1, &gone1)
	case mapping:
		d.mapping(n, l, r, &set1, &gone1)
	case keyed:
		d.keyed(n, l, r, &set1, &gone1)
	case scalars:
		d.scalars(n, l, r, &set1, &gone1)
	}
	if len(set1) > 0 || !l.there {
		*put = append(*put, set{key: key, self: !l.there, kids: set1})
	}
	if len(gone1) > 0 || !r.there {
		*gone = append(*gone, set{key: key, self: !r.there, kids: gone1})
	}
}

// parts compares the fields of two structs, either of which may not be there.
func (d *diff) parts(n *node, l, r side, a, b reflect.Value, put, gone *[]set) {
	none := func(s side) bool { return !s.there || s.null }
	if !none(l) && !none(r) {
		d.record(n, a, b, put, gone)
		return
	}
	for i := range n.fields {
		f := &n.fields[i]
		var x, y side
		if !none(l) {
			x = f.at(a)
		}
		if !none(r) {
			y = f.at(b)
		}
		if x.there || y.there {
			d.field(f.node, f.key, x, y, put, gone)
		}
	}
}

// hollow tells of a value that has nothing in it.
func hollow(n *node, s side) bool {
	if !s.there || s.null {
		return true
	}
	if n.shape != record {
		return s.Len() == 0
	}
	for i := range n.fields {
		if n.fields[i].at(s.Value).there {
			return false
		}
	}
	return true
}

func (d *diff) mapping(n *node, l, r side, put, gone *[]set) {
	if l.there && !l.null {
		for it := l.MapRange(); it.Next(); {
			k := it.Key()
			var other side
			if r.there && !r.null {
				if v := r.MapIndex(k); v.IsValid() {
					other = some(v)
				}
			}
			d.field(n.elem, "f:"+k.String(), some(it.Value()), other, put, gone)
		}
	}
	if r.there && !r.null {
		for it := r.MapRange(); it.Next(); {
			k := it.Key()
			if l.there && !l.null && l.MapIndex(k).IsValid() {
				continue
			}
			d.field(n.elem, "f:"+k.String(), side{}, some(it.Value()), put, gone)
		}
	}
	order(*put)
	order(*gone)
}

func order(s []set) {
	if len(s) > 1 {
		slices.SortFunc(s, func(a, b set) int { return strings.Compare(a.key, b.key) })
	}
}

func length(s side) int {
	if !s.there || s.null {
		return 0
	}
	return s.Len()
}

// keyed compares two lists item by item, by their keys.
func (d *diff) keyed(n *node, l, r side, put, gone *[]set) {
	d.items(n, l, r, func(v reflect.Value) string { return n.itemKey(v) }, put, gone)
}

// scalars compares two lists that are sets.
func (d *diff) scalars(n *node, l, r side, put, gone *[]set) {
	d.items(n, l, r, func(v reflect.Value) string { return string(appendScalar([]byte("v:"), v)) }, put, gone)
}

func (d *diff) items(n *node, l, r side, keyOf func(reflect.Value) string, put, gone *[]set) {
	if l.there && r.there && same(n, l, r) {
		return
	}
	nl, nr := length(l), length(r)
	was := make(map[string]side, nl)
	for i := range nl {
		v := some(l.Index(i))
		key := keyOf(v.Value)
		if _, twice := was[key]; twice || key == "" {
			d.doubled = true
			return
		}
		was[key] = v
	}
	is := make(map[string]bool, nr)
	for i := range nr {
		v := some(r.Index(i))
		key := keyOf(v.Value)
		if is[key] || key == "" {
			d.doubled = true
			return
		}
		is[key] = true
		d.field(n.elem, key, was[key], v, put, gone)
	}
	for key, v := range was {
		if !is[key] {
			d.field(n.elem, key, v, side{}, put, gone)
		}
	}
	order(*put)
	order(*gone)
}

// itemKey is the key of a list item; "" when it has none.
func (n *node) itemKey(v reflect.Value) string {
	b := append(make([]byte, 0, 64), "k:{"...)
	some := false
	for i := range n.keys {
		k := &n.keys[i]
		s := k.field.at(v)
		if !s.there && k.def == "" {
			continue
		}
		if some {
			b = append(b, ',')
		}
		some = true
		b = append(b, '"')
		b = append(b, k.name...)
		b = append(b, '"', ':')
		switch {
		case !s.there:
			b = append(b, k.def...)
		case s.null:
			b = append(b, "null"...)
		default:
			b = appendScalar(b, s.Value)
		}
	}
	if !some {
		return ""
	}
	return string(append(b, '}'))
}

// appendScalar writes a scalar as JSON.
func appendScalar(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.String:
		s := v.String()
		for i := range len(s) {
			if c := s[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= 0x80 {
				data, _ := json.Marshal(s)
				return append(b, data...)
			}
		}
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		return strconv.AppendInt(b, v.Int(), 10)
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		return strconv.AppendUint(b, v.Uint(), 10)
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	}
	data, _ := json.Marshal(v.Interface())
	return append(b, data...)
}

// same tells whether two values are written alike.
func same(n *node, l, r side) bool {
	if l.null || r.null {
		return l.null == r.null
	}
	if n.same != nil {
		return n.same(l.Value, r.Value)
	}
	if n.loose != nil {
		return sameLoose(n, l.Value, r.Value)
	}
	a, b := l.Value, r.Value
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Struct:
		for i := range n.fields {
			f := &n.fields[i]
			x, y := f.at(a), f.at(b)
			if x.there != y.there || x.there && !same(f.node, x, y) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for it := a.MapRange(); it.Next(); {
			v := b.MapIndex(it.Key())
			if !v.IsValid() || !same(n.elem, some(it.Value()), some(v)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		if n.elem == nil { // bytes
			return bytes.Equal(a.Bytes(), b.Bytes())
		}
		for i := range a.Len() {
			if !same(n.elem, some(a.Index(i)), some(b.Index(i))) {
				return false
			}
		}
		return true
	}
	return a.Interface() == b.Interface()
}

// sameLoose compares what values write of themselves.
func sameLoose(n *node, a, b reflect.Value) bool {
	x, err1 := n.loose.ToUnstructured(a)
	y, err2 := n.loose.ToUnstructured(b)
	return err1 == nil && err2 == nil && reflect.DeepEqual(x, y)
}
