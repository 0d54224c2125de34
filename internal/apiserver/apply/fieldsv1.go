package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// FieldsV1 is a set in JSON: an object for each field, with "." for the field
// itself where others are below it.
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/

// encode writes a set.
func encode(s []set) []byte {
	return appendSet(make([]byte, 0, 256), s, false)
}

func appendSet(b []byte, s []set, self bool) []byte {
	b = append(b, '{')
	if self && len(s) > 0 {
		b = append(b, `".":{},`...)
	}
	for i := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s[i].key)
		b = append(b, ':')
		b = appendSet(b, s[i].kids, s[i].self)
	}
	return append(b, '}')
}

// appendString writes a JSON string.
func appendString(b []byte, s string) []byte {
	plain := true
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] < utf8.RuneSelf && s[i] != '\\'
	}
	if !plain {
		quoted, _ := json.Marshal(s)
		return append(b, quoted...)
	}
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		if s[i] == '"' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

var errFields = errors.New("apply: these are no fields")

// maxDepth bounds how deep a set may go.
const maxDepth = 1000

// parse reads a set.
func parse(data []byte) ([]set, error) {
	if !utf8.Valid(data) { // it is written as any JSON is, with a mark in place of what is none
		data = bytes.ToValidUTF8(data, []byte(string(utf8.RuneError)))
	}
	p := parser{data: data}
	kids, _, err := p.object(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at != len(p.data) {
		return nil, errFields
	}
	return kids, nil
}

type parser struct {
	data []byte
	at   int
}

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) take(c byte) bool {
	p.space()
	if p.at < len(p.data) && p.data[p.at] == c {
		p.at++
		return true
	}
	return false
}

// object reads what is below a field. self tells whether the field itself is in
// the set.
func (p *parser) object(depth int) (kids []set, self bool, err error) {
	if depth > maxDepth || !p.take('{') {
		return nil, false, errFields
	}
	if p.take('}') {
		return nil, true, nil
	}
	for {
		key, err := p.string()
		if err != nil || !p.take(':') {
			return nil, false, errFields
		}
		below, here, err := p.object(depth + 1)
		if err != nil {
			return nil, false, err
		}
		switch {
		case key == ".":
			self = true
		case len(key) < 2 || key[1] != ':':
			return nil, false, errFields
		default:
			kids = append(kids, set{key: key, self: here, kids: below})
		}
		if p.take(',') {
			continue
		}
		if !p.take('}') {
			return nil, false, errFields
		}
		return sorted(kids), self || len(kids) == 0, nil
	}
}

func (p *parser) string() (string, error) {
	if !p.take('"') {
		return "", errFields
	}
	start, plain := p.at, true
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			if plain {
				return string(p.data[start : p.at-1]), nil
			}
			var s string
			if json.Unmarshal(p.data[start-1:p.at], &s) != nil {
				return "", errFields
			}
			return s, nil
		case c == '\\':
			plain = false
			p.at += 2
		default:
			p.at++
		}
	}
	return "", errFields
}
