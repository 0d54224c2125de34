package crd

import (
	"math"
	"regexp"
	"slices"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// plain accepts most of what is valid, at a tenth of what the validator costs,
// which makes a checker for every field of every object. What it does not
// accept may be valid all the same: the validator knows, and says what is wrong.
//
// A test holds it against the validator: it accepts nothing that is refused.
type plain struct {
	unsure bool // it accepts nothing: there is more to check than it can
	kind   string

	nullable, intOrString, any bool

	properties            map[string]*plain
	required              []string
	extra                 *plain // of keys that are no properties; nil: anything
	items                 *plain
	enum                  []string
	pattern               *regexp.Regexp
	min, max              *float64
	above, below          bool   // min and max themselves are too little and too much
	fewest, mostOf        *int64 // items
	shortest, longest     *int64 // characters
	leastKeys, mostOfKeys *int64

	set  bool     // no item comes twice
	keys []string // by which no two items are the same; nil: they may be
}

// exact is the bound within which a float64 holds every integer.
const exact = 1 << 53

func newPlain(s *apiextensions.JSONSchemaProps) *plain {
	p := &plain{
		kind: s.Type, nullable: s.Nullable, intOrString: s.XIntOrString,
		required: s.Required, min: s.Minimum, max: s.Maximum, above: s.ExclusiveMinimum, below: s.ExclusiveMaximum,
		fewest: s.MinItems, mostOf: s.MaxItems, shortest: s.MinLength, longest: s.MaxLength, leastKeys: s.MinProperties, mostOfKeys: s.MaxProperties,
	}
	logic := len(s.AllOf) + len(s.OneOf) + len(s.AnyOf)
	if p.intOrString && len(s.AllOf)+len(s.OneOf) == 0 && isIntOrString(s.AnyOf) {
		logic = 0
	}
	numbers := s.Format == "" || s.Type == "integer" && (s.Format == "int64" || s.Format == "int32")
	p.unsure = logic > 0 || s.Not != nil || s.Ref != nil || !numbers || s.MultipleOf != nil || s.UniqueItems ||
		len(s.PatternProperties)+len(s.Dependencies)+len(s.Definitions) > 0 || s.AdditionalItems != nil
	if (fraction(p.min) || fraction(p.max)) && (s.Type == "integer" || p.above || p.below) {
		p.unsure = true // the validator refuses such a bound, or cuts it off for an integer
	}
	if s.Format == "int32" {
		lo, hi := float64(-1<<31), float64(1<<31-1)
		p.unsure = p.unsure || p.min != nil && *p.min < lo || p.max != nil && *p.max > hi
		if p.min == nil {
			p.min = &lo
		}
		if p.max == nil {
			p.max = &hi
		}
	}
	if s.Pattern != "" {
		var err error
		if p.pattern, err = regexp.Compile(s.Pattern); err != nil {
			p.unsure = true
		}
	}
	for _, one := range s.Enum {
		text, ok := one.(string)
		if !ok {
			p.unsure = true
			break
		}
		p.enum = append(p.enum, text)
	}
	switch {
	case p.intOrString:
		p.unsure = p.unsure || s.Type != "" || p.min != nil || p.max != nil || p.pattern != nil || p.longest != nil || p.shortest != nil || p.enum != nil
	case s.Type == "":
		// Without a type only what may be anything is beyond doubt.
		p.any = s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
		p.unsure = p.unsure || !p.any || len(s.Properties)+len(s.Required)+len(s.Enum) > 0 || s.Items != nil || s.AdditionalProperties != nil ||
			p.min != nil || p.max != nil || p.pattern != nil || p.longest != nil || p.shortest != nil || p.fewest != nil || p.mostOf != nil || p.leastKeys != nil || p.mostOfKeys != nil
	case s.Type != "string" && p.enum != nil:
		p.unsure = true
	}
	if s.XListType != nil {
		p.set = *s.XListType == "set"
		if *s.XListType == "map" {
			p.keys = s.XListMapKeys
			p.unsure = p.unsure || len(p.keys) == 0
		}
	}
	p.parts(s)
	return p
}

// parts are what is in an object or a list.
func (p *plain) parts(s *apiextensions.JSONSchemaProps) {
	if len(s.Properties) > 0 {
		p.properties = make(map[string]*plain, len(s.Properties))
		for name := range s.Properties {
			one := s.Properties[name]
			p.properties[name] = newPlain(&one)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		if a.Schema != nil {
			p.extra = newPlain(a.Schema)
		} else if !a.Allows {
			p.unsure = true
		}
	}
	if i := s.Items; i != nil {
		if i.Schema == nil || len(i.JSONSchemas) > 0 {
			p.unsure = true
			return
		}
		p.items = newPlain(i.Schema)
	}
}

func fraction(bound *float64) bool { return bound != nil && *bound != math.Trunc(*bound) }

func isIntOrString(anyOf []apiextensions.JSONSchemaProps) bool {
	switch len(anyOf) {
	case 0:
		return true
	case 2:
		return anyOf[0].Type == "integer" && anyOf[1].Type == "string" && bare(&anyOf[0]) && bare(&anyOf[1])
	}
	return false
}

// bare is a schema that says its type only.
func bare(s *apiextensions.JSONSchemaProps) bool {
	return s.Pattern == "" && s.Format == "" && s.Minimum == nil && s.Maximum == nil && s.MaxLength == nil && s.MinLength == nil && len(s.Enum) == 0 &&
		s.MultipleOf == nil && len(s.AllOf)+len(s.OneOf)+len(s.AnyOf) == 0 && s.Not == nil
}

// accepts tells that a value is valid. False tells nothing.
func (p *plain) accepts(v any) bool {
	switch {
	case p == nil || p.unsure:
		return false
	case v == nil: // a null is in no enum, not even in one that names it
		return p.nullable && p.enum == nil
	case p.any:
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		return p.kind == "object" && p.object(v)
	case []any:
		return p.kind == "array" && p.list(v)
	case string:
		return p.intOrString || p.kind == "string" && p.text(v)
	case bool:
		return p.kind == "boolean"
	case int64:
		return p.intOrString || (p.kind == "integer" || p.kind == "number") && -exact < v && v < exact && p.number(float64(v))
	case float64:
		return p.kind == "number" && p.number(v)
	}
	return false
}

func (p *plain) list(v []any) bool {
	if p.items == nil || !within(len(v), p.fewest, p.mostOf) {
		return false
	}
	for _, one := range v {
		if !p.items.accepts(one) {
			return false
		}
	}
	return !p.set && p.keys == nil || p.distinct(v)
}

// manyItems is how many are compared with each other.
const manyItems = 32

// distinct tells that the items of a set or a map differ.
func (p *plain) distinct(v []any) bool {
	if len(v) > manyItems {
		return false
	}
	for i := range v {
		for j := range v[:i] {
			if p.set && (!isScalar(v[i]) || !isScalar(v[j]) || v[i] == v[j]) || p.keys != nil && !p.differ(v[i], v[j]) {
				return false
			}
		}
	}
	return true
}

// differ tells that two items have other keys. An item without is not plain.
func (p *plain) differ(a, b any) (other bool) {
	x, one := a.(map[string]any)
	y, two := b.(map[string]any)
	if !one || !two {
		return false
	}
	for _, key := range p.keys {
		k, l := x[key], y[key]
		if !isScalar(k) || !isScalar(l) {
			return false
		}
		other = other || k != l
	}
	return other
}

// isScalar tells of a value that == compares as the library does: numbers may be
// equal in two forms.
func isScalar(v any) bool {
	switch v.(type) {
	case string, bool, int64:
		return true
	}
	return false
}

// acceptsObject is accepts for a whole object. A schema may say of its type and
// metadata no more than of what type they are.
func (p *plain) acceptsObject(o *Object) bool {
	if p == nil || p.unsure || p.kind != "object" || p.leastKeys != nil || p.mostOfKeys != nil || p.extra != nil {
		return false
	}
	for _, name := range headNames {
		kind := "string"
		if name == "metadata" {
			kind = "object"
		}
		if one := p.properties[name]; one != nil && !one.only(kind) {
			return false
		}
	}
	for _, name := range p.required {
		if _, ok := o.Fields[name]; !ok && !slices.Contains(headNames[:], name) {
			return false
		}
	}
	for name, value := range o.Fields {
		if one := p.properties[name]; one != nil && !one.accepts(value) {
			return false
		}
	}
	return true
}

// headNames are the fields that every object has.
var headNames = [...]string{"apiVersion", "kind", "metadata"}

// only tells that p accepts whatever is of a type.
func (p *plain) only(kind string) bool {
	return !p.unsure && p.kind == kind && p.properties == nil && p.required == nil && p.extra == nil && p.enum == nil && p.pattern == nil &&
		p.shortest == nil && p.longest == nil && p.leastKeys == nil && p.mostOfKeys == nil
}

func (p *plain) object(v map[string]any) bool {
	for _, name := range p.required {
		if _, ok := v[name]; !ok {
			return false
		}
	}
	for name, value := range v {
		if one := p.properties[name]; one != nil {
			if !one.accepts(value) {
				return false
			}
		} else if p.extra != nil && !p.extra.accepts(value) {
			return false
		}
	}
	return within(len(v), p.leastKeys, p.mostOfKeys)
}

func (p *plain) text(s string) bool {
	if p.shortest != nil || p.longest != nil {
		if !within(utf8.RuneCountInString(s), p.shortest, p.longest) {
			return false
		}
	}
	return (p.enum == nil || slices.Contains(p.enum, s)) && (p.pattern == nil || p.pattern.MatchString(s))
}

func (p *plain) number(n float64) bool {
	return (p.min == nil || n > *p.min || n == *p.min && !p.above) && (p.max == nil || n < *p.max || n == *p.max && !p.below)
}

func within(n int, least, most *int64) bool {
	return (least == nil || int64(n) >= *least) && (most == nil || int64(n) <= *most)
}
