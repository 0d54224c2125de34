package crd

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"
)

// scratch are buffers to write objects in, whose length is known afterwards.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// EncodeJSON implements kinds.Dynamic.
func (o *Object) EncodeJSON() ([]byte, error) {
	buf := scratch.Get().(*[]byte)
	b, err := o.append((*buf)[:0])
	if err != nil {
		scratch.Put(buf)
		return nil, err
	}
	out := append(make([]byte, 0, len(b)), b...)
	if cap(b) <= 64<<10 {
		*buf = b
		scratch.Put(buf)
	}
	return out, nil
}

func (o *Object) append(b []byte) (_ []byte, err error) {
	var few [12]string
	for i, key := range o.keys(few[:0]) {
		if i == 0 {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		switch key {
		case "apiVersion":
			b = appendString(b, o.APIVersion)
		case "kind":
			b = appendString(b, o.Kind)
		case "metadata":
			b, err = appendMeta(b, &o.ObjectMeta)
		default:
			b, err = appendValue(b, o.Fields[key])
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// MarshalJSON is for those who do not know of EncodeJSON.
func (o *Object) MarshalJSON() ([]byte, error) { return o.EncodeJSON() }

// appendValue writes what encoding/json would, without reflection.
func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendString(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case map[string]any:
		return appendMap(b, v)
	case []any:
		b = append(b, '[')
		for i := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendValue(b, v[i]); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	data, err := json.Marshal(v)
	return append(b, data...), err
}

func appendMap(b []byte, m map[string]any) (_ []byte, err error) {
	var few [16]string
	b = append(b, '{')
	for i, key := range sortedKeys(m, few[:0]) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		if b, err = appendValue(b, m[key]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// sortedKeys adds the keys of m to keys.
func sortedKeys[V any](m map[string]V, keys []string) []string {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			data, _ := json.Marshal(s) // a string never fails
			return append(b, data...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
