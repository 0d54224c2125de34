package crd

import (
	"math"
	"slices"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// form is a structural schema as reading needs it: which fields there are, and
// what is put in where one is missing. Asking it costs no memory. It answers for
// what is as it should be, which is nearly all; upstream's packages do the rest.
//
// A test holds it against those packages.
type form struct {
	name     string // of the field that it is the form of
	fields   map[string]*form
	more     bool  // keys that are no fields stay, in the form extra
	extra    *form // nil: nothing below them is known
	items    *form
	keeps    bool // what is unknown stays
	nullable bool
	defaults []filler // of fields; what they hold is copied, never given away
	deep     bool     // there are defaults here or below
}

// filler is the default of a field.
type filler struct {
	name  string
	value any
}

func newForm(name string, s *schema.Structural) *form {
	if s == nil {
		return nil
	}
	f := &form{name: name, keeps: s.XPreserveUnknownFields, nullable: s.Nullable, items: newForm("", s.Items)}
	if len(s.Properties) > 0 {
		f.fields = make(map[string]*form, len(s.Properties))
	}
	for name := range s.Properties {
		p := s.Properties[name]
		f.fields[name] = newForm(name, &p)
		f.deep = f.deep || f.fields[name].deep
		if p.Default.Object != nil {
			f.defaults = append(f.defaults, filler{name, p.Default.Object})
		}
	}
	if a := s.AdditionalProperties; a != nil {
		f.more, f.extra = true, newForm("", a.Structural)
	}
	f.deep = f.deep || len(f.defaults) > 0 || f.items != nil && f.items.deep || f.extra != nil && f.extra.deep
	return f
}

// at is the form of what lies under a key. known is false for a key that is no
// field of this form.
func (f *form) at(key string) (below *form, known bool) {
	if f == nil {
		return nil, false
	}
	if below, known = f.fields[key]; known {
		return below, true
	}
	return f.extra, f.more
}

// key is text as the name of a field, without a copy of it where it is one.
func (f *form) key(text []byte) string {
	if f != nil {
		if below := f.fields[string(text)]; below != nil {
			return below.name
		}
	}
	return string(text)
}

// under is the form of what lies under a key; nil where there is none.
func (f *form) under(key string) *form {
	below, _ := f.at(key)
	return below
}

func (f *form) item() *form {
	if f == nil {
		return nil
	}
	return f.items
}

// clean tells that nothing in v is unknown. loose is set where what is unknown
// stays.
func (f *form) clean(v any, loose bool) bool {
	loose = loose || f != nil && f.keeps
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			below, known := f.at(key)
			if !known {
				if loose {
					continue
				}
				return false
			}
			if !below.clean(value, false) {
				return false
			}
		}
	case []any:
		if loose && f.item() == nil {
			return true
		}
		for _, one := range v {
			if !f.item().clean(one, loose) {
				return false
			}
		}
	}
	return true
}

// sound tells that v has no null where none may be.
func (f *form) sound(v any) bool {
	switch v := v.(type) {
	case nil:
		return f == nil || f.nullable
	case map[string]any:
		if f == nil {
			return true
		}
		for key, value := range v {
			if !f.under(key).sound(value) {
				return false
			}
		}
	case []any:
		if f == nil || f.items == nil {
			return true
		}
		for _, one := range v {
			if !f.items.sound(one) {
				return false
			}
		}
	}
	return true
}

// fill puts the defaults into v, which is sound.
func (f *form) fill(v any) {
	if f == nil || !f.deep {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, d := range f.defaults {
			if _, there := v[d.name]; !there {
				v[d.name] = runtime.DeepCopyJSONValue(d.value)
			}
		}
		for key, value := range v {
			f.under(key).fill(value)
		}
	case []any:
		for _, one := range v {
			f.items.fill(one)
		}
	}
}

// filled tells that no default is missing.
func (f *form) filled(v any) bool {
	if f == nil || !f.deep {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, d := range f.defaults {
			if _, there := v[d.name]; !there {
				return false
			}
		}
		for key, value := range v {
			if !f.under(key).filled(value) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(one any) bool { return !f.items.filled(one) })
	}
	return true
}

// lasting tells that v, written as JSON and read again, is the same.
func lasting(v any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch v := v.(type) {
	case nil, bool, int64:
		return true
	case string:
		return utf8.ValidString(v)
	case float64: // a whole one is read as an integer
		return v != math.Trunc(v) && !math.IsNaN(v)
	case map[string]any:
		for key, value := range v {
			if !utf8.ValidString(key) || !lasting(value, depth+1) {
				return false
			}
		}
		return v != nil
	case []any:
		for _, one := range v {
			if !lasting(one, depth+1) {
				return false
			}
		}
		return v != nil
	}
	return false
}
