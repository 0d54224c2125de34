package crd

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// DecodeJSON implements kinds.Dynamic. Where the object has a version, it is
// pruned by that version's schema.
func (o *Object) DecodeJSON(data []byte, strict bool) ([]error, error) {
	found, err := o.read(data, strict)
	if err != nil || o.version == nil {
		return found, err
	}
	unknown, err := o.version.prune(o, strict)
	for _, path := range unknown {
		found = append(found, fmt.Errorf("unknown field %q", path))
	}
	return found, err
}

// UnmarshalJSON is for those who do not know of DecodeJSON.
func (o *Object) UnmarshalJSON(data []byte) error {
	_, err := o.DecodeJSON(data, false)
	return err
}

// read reads the object by no schema.
func (o *Object) read(data []byte, strict bool) (found []error, err error) {
	var f *form
	if o.version != nil {
		sh, err := o.version.shape()
		if err != nil {
			return nil, err
		}
		f = sh.form
	}
	var few [8]member
	members, ok := split(data, few[:0], f)
	if !ok { // no object, or no JSON: the decoder knows what to say
		var m map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &m); err != nil {
			return nil, err
		}
		if m != nil {
			return nil, errors.New("json: object cannot be read")
		}
	}
	o.TypeMeta, o.ObjectMeta = metav1.TypeMeta{}, metav1.ObjectMeta{}
	o.Fields = make(map[string]any, len(members))
	for i := range members {
		m := &members[i]
		if strict && doubled(members[:i], m.key) {
			found = append(found, fmt.Errorf("duplicate field %q", m.key))
		}
		var more []error
		switch m.key {
		case "apiVersion":
			err = o.decodeText(m.value, &o.APIVersion)
		case "kind":
			err = o.decodeText(m.value, &o.Kind)
		case "metadata":
			o.ObjectMeta = metav1.ObjectMeta{}
			if !parseMeta(m.value, &o.ObjectMeta) {
				o.ObjectMeta = metav1.ObjectMeta{}
				more, err = decodeStrict(m.value, &o.ObjectMeta, m.key, strict)
			}
		default:
			v, ok := parse(m.value, f.under(m.key))
			if !ok {
				var slow any // which the library moves out of the frame
				more, err = decodeStrict(m.value, &slow, m.key, strict)
				v = slow
			}
			o.Fields[m.key] = v
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.key, err)
		}
		found = append(found, more...)
	}
	return found, nil
}

func doubled(before []member, key string) bool {
	for i := range before {
		if before[i].key == key {
			return true
		}
	}
	return false
}

func decode(data []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// decodeText is decode for what is a string, as a rule the one that the
// version has already.
func (o *Object) decodeText(data []byte, into *string) error {
	if raw, ok := plainText(data); ok {
		switch v := o.version; {
		case v != nil && string(raw) == v.apiVersion:
			*into = v.apiVersion
		case v != nil && string(raw) == v.gvk.Kind:
			*into = v.gvk.Kind
		default:
			*into = string(raw)
		}
		return nil
	}
	return decode(data, into)
}

// plainText is what a JSON string says that needs no decoding.
func plainText(data []byte) ([]byte, bool) {
	if text(data, 0) != len(data) {
		return nil, false
	}
	raw := data[1 : len(data)-1]
	for _, c := range raw {
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return nil, false
		}
	}
	return raw, true
}

// decodeStrict reads a member. Errors of strictness name the path from the
// root.
func decodeStrict(data []byte, into any, key string, strict bool) ([]error, error) {
	if !strict {
		return nil, decode(data, into)
	}
	found, err := kjson.UnmarshalStrict(data, into)
	for _, e := range found {
		if at, ok := e.(kjson.FieldError); ok {
			at.SetFieldPath(key + "." + at.FieldPath())
		}
	}
	return found, err
}

// member is one member of a JSON object, its value not yet looked at.
type member struct {
	key   string
	value []byte
}

// split takes an object apart. It is false for what is no object. A value is
// known to be JSON only once it has been decoded. members is what they are added
// to, f the form of the object.
func split(data []byte, members []member, f *form) (_ []member, ok bool) {
	i := space(data, 0)
	if i >= len(data) || data[i] != '{' {
		return nil, false
	}
	for i = space(data, i+1); i < len(data); {
		if data[i] == '}' && len(members) == 0 {
			return members, space(data, i+1) == len(data)
		}
		end := text(data, i)
		if end < 0 {
			return nil, false
		}
		var m member
		if m.key, ok = keyOf(data[i:end], f); !ok {
			return nil, false
		}
		if i = space(data, end); i >= len(data) || data[i] != ':' {
			return nil, false
		}
		start := space(data, i+1)
		if i = value(data, start); i <= start {
			return nil, false
		}
		m.value = data[start:i]
		members = append(members, m)
		if i = space(data, i); i >= len(data) {
			return nil, false
		}
		switch data[i] {
		case ',':
			i = space(data, i+1)
		case '}':
			return members, space(data, i+1) == len(data)
		default:
			return nil, false
		}
	}
	return nil, false
}

// keyOf is the string that data writes.
func keyOf(data []byte, f *form) (key string, ok bool) {
	raw, ok := plainText(data)
	if !ok {
		var slow string
		err := json.Unmarshal(data, &slow)
		return slow, err == nil
	}
	switch string(raw) {
	case "apiVersion":
		return "apiVersion", true
	case "kind":
		return "kind", true
	case "metadata":
		return "metadata", true
	}
	return f.key(raw), true
}

// space skips white space.
func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// text returns the end of the string that begins at i, or -1.
func text(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// value returns the end of the value that begins at i, or -1.
func value(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			if i = text(data, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return -1
}
