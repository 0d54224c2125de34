package crd

import (
	"encoding/json"
	"strconv"
)

// parser reads JSON values as the library does (maps, slices, strings, int64s
// where a number is one, else float64s), without reflection and in one pass.
// It gives up on all that is unusual (what is no JSON, keys that come twice,
// very deep values): the library then says what is wrong.
type parser struct {
	data []byte
	at   int
}

const maxDepth = 100

// parse is false when the library has to look. f is what the value should be:
// the names of its fields need no copies.
func parse(data []byte, f *form) (any, bool) {
	p := parser{data: data}
	p.space()
	v, ok := p.value(f, 0)
	p.space()
	return v, ok && p.at == len(data)
}

func (p *parser) space() { p.at = space(p.data, p.at) }

// next is the byte at hand, 0 at the end.
func (p *parser) next() byte {
	if p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

func (p *parser) value(f *form, depth int) (any, bool) {
	switch c := p.next(); {
	case depth > maxDepth:
		return nil, false
	case c == '{':
		return p.object(f, depth)
	case c == '[':
		return p.array(f.item(), depth)
	case c == '"':
		return p.text(nil)
	case c == 't':
		return true, p.word("true")
	case c == 'f':
		return false, p.word("false")
	case c == 'n':
		return nil, p.word("null")
	}
	return p.number()
}

func (p *parser) word(w string) bool {
	if len(p.data)-p.at < len(w) || string(p.data[p.at:p.at+len(w)]) != w {
		return false
	}
	p.at += len(w)
	return true
}

func (p *parser) object(f *form, depth int) (any, bool) {
	out := map[string]any{}
	p.at++
	if p.space(); p.next() == '}' {
		p.at++
		return out, true
	}
	for {
		key, ok := p.text(f)
		if !ok {
			return nil, false
		}
		if p.space(); p.next() != ':' {
			return nil, false
		}
		p.at++
		p.space()
		v, ok := p.value(f.under(key), depth+1)
		if _, twice := out[key]; !ok || twice {
			return nil, false
		}
		out[key] = v
		if more, ok := p.after('}'); !more {
			return out, ok
		}
	}
}

// after reads what follows an element: a comma, behind which there are more, or
// the end.
func (p *parser) after(end byte) (more, ok bool) {
	p.space()
	switch p.next() {
	case ',':
		p.at++
		p.space()
		return true, true
	case end:
		p.at++
		return false, true
	}
	return false, false
}

func (p *parser) array(f *form, depth int) (any, bool) {
	out := []any{}
	ok := p.each(func() bool {
		v, ok := p.value(f, depth+1)
		out = append(out, v)
		return ok
	})
	return out, ok
}

// text reads a string. One with escapes or beyond ASCII is left to the library,
// which knows what is no UTF-8. names are what it is likely to say.
func (p *parser) text(names *form) (string, bool) {
	end := text(p.data, p.at)
	if end < 0 {
		return "", false
	}
	quoted := p.data[p.at:end]
	p.at = end
	for _, c := range quoted[1 : len(quoted)-1] {
		if c == '\\' || c < ' ' || c >= 0x80 {
			var s string
			err := json.Unmarshal(quoted, &s)
			return s, err == nil
		}
	}
	return names.key(quoted[1 : len(quoted)-1]), true
}

// number reads a number: an optional sign, digits that do not begin with a
// needless zero, and then a fraction and an exponent, which make it a float.
func (p *parser) number() (any, bool) {
	start := p.at
	if p.next() == '-' {
		p.at++
	}
	first := p.at
	if n := p.digits(); n == 0 || n > 1 && p.data[first] == '0' {
		return nil, false
	}
	whole := true
	if p.next() == '.' {
		p.at++
		if whole = false; p.digits() == 0 {
			return nil, false
		}
	}
	if c := p.next(); c == 'e' || c == 'E' {
		p.at++
		if c := p.next(); c == '+' || c == '-' {
			p.at++
		}
		if whole = false; p.digits() == 0 {
			return nil, false
		}
	}
	if whole && p.at-first < 19 { // too short to be too large
		n := int64(0)
		for _, c := range p.data[first:p.at] {
			n = 10*n + int64(c-'0')
		}
		if first > start {
			n = -n
		}
		return n, true
	}
	text := string(p.data[start:p.at])
	if whole {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// digits skips digits and tells how many.
func (p *parser) digits() int {
	start := p.at
	for c := p.next(); c >= '0' && c <= '9'; c = p.next() {
		p.at++
	}
	return p.at - start
}
