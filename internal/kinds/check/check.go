// Package check gathers what is wrong with an object, with the field, the
// reason and the words of upstream.
//
// Every method takes the path of a parent and the name of the field below it,
// "" for the parent itself, so that a valid object costs no path: paths are
// built only for what is wrong.
//
//	var c check.Errors
//	c.Text(path, "name", name, validation.IsDNS1123Label(name))
//	return c.List
//
// An Errors belongs to one goroutine.
package check

import (
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Errors is what is wrong so far.
type Errors struct{ List field.ErrorList }

func at(p *field.Path, name string) *field.Path {
	if name == "" {
		return p
	}
	return p.Child(name)
}

// Add appends what another check found.
func (c *Errors) Add(errs field.ErrorList) { c.List = append(c.List, errs...) }

// Required says that a field must have a value.
func (c *Errors) Required(p *field.Path, name, detail string) {
	c.List = append(c.List, field.Required(at(p, name), detail))
}

// Invalid says that a value is malformed.
func (c *Errors) Invalid(p *field.Path, name string, value any, detail string) {
	c.List = append(c.List, field.Invalid(at(p, name), value, detail))
}

// Forbidden says that a field may not be set here.
func (c *Errors) Forbidden(p *field.Path, name, detail string) {
	c.List = append(c.List, field.Forbidden(at(p, name), detail))
}

// Duplicate says that a value must be unique and is not.
func (c *Errors) Duplicate(p *field.Path, name string, value any) {
	c.List = append(c.List, field.Duplicate(at(p, name), value))
}

// NotFound says that a value names something that is not there.
func (c *Errors) NotFound(p *field.Path, name string, value any) {
	c.List = append(c.List, field.NotFound(at(p, name), value))
}

// TooLong says that a value is longer than max.
func (c *Errors) TooLong(p *field.Path, name string, max int) {
	c.List = append(c.List, field.TooLong(at(p, name), "", max))
}

// TooMany says that a list has more than max items.
func (c *Errors) TooMany(p *field.Path, name string, have, max int) {
	c.List = append(c.List, field.TooMany(at(p, name), have, max))
}

// Text is Invalid for each of the messages, which are about value.
func (c *Errors) Text(p *field.Path, name, value string, messages []string) {
	for _, msg := range messages {
		c.Invalid(p, name, value, msg)
	}
}

// Label wants a DNS label.
func (c *Errors) Label(p *field.Path, name, value string) {
	c.Text(p, name, value, utilvalidation.IsDNS1123Label(value))
}

// Subdomain wants a DNS name.
func (c *Errors) Subdomain(p *field.Path, name, value string) {
	c.Text(p, name, value, utilvalidation.IsDNS1123Subdomain(value))
}

// Qualified wants a name that may have a domain before it.
func (c *Errors) Qualified(p *field.Path, name, value string) {
	c.Text(p, name, value, utilvalidation.IsQualifiedName(value))
}

// Name is Required and Label in one.
func (c *Errors) Name(p *field.Path, name, value string) {
	if value == "" {
		c.Required(p, name, "")
		return
	}
	c.Label(p, name, value)
}

// NotEmpty wants any text at all.
func (c *Errors) NotEmpty(p *field.Path, name, value string) {
	if value == "" {
		c.Required(p, name, "")
	}
}

// NonNegative wants a number from 0.
func (c *Errors) NonNegative(p *field.Path, name string, value int64) {
	if value < 0 {
		c.Invalid(p, name, value, validation.IsNegativeErrorMsg)
	}
}

// Port wants the number of a port.
func (c *Errors) Port(p *field.Path, name string, value int32) {
	if value < 1 || value > 65535 {
		c.Invalid(p, name, value, utilvalidation.InclusiveRangeError(1, 65535))
	}
}

// Immutable says that a field differs from what it was. The caller compares.
func (c *Errors) Immutable(p *field.Path, name string, value any) {
	c.Invalid(p, name, value, validation.FieldImmutableErrorMsg)
}

// OneOf wants one of the allowed values; there must be one.
func OneOf[T ~string](c *Errors, p *field.Path, name string, value T, allowed ...T) {
	if value == "" {
		c.Required(p, name, "")
		return
	}
	Among(c, p, name, value, allowed...)
}

// Among is OneOf where no value is a value like any other.
func Among[T ~string](c *Errors, p *field.Path, name string, value T, allowed ...T) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	c.List = append(c.List, field.NotSupported(at(p, name), value, allowed))
}

// Unique finds values that were seen before. The zero value is ready to use; a
// few values are kept in a list, many in a map, so that nobody can make it slow.
type Unique[T comparable] struct {
	few  []T
	many map[T]struct{}
}

const fewValues = 16

// Seen tells whether v was there before and notes it.
func (u *Unique[T]) Seen(v T) bool {
	if u.Has(v) {
		return true
	}
	switch {
	case u.many != nil:
		u.many[v] = struct{}{}
	case len(u.few) < fewValues:
		u.few = append(u.few, v)
	default:
		u.many = make(map[T]struct{}, 2*fewValues)
		for _, f := range u.few {
			u.many[f] = struct{}{}
		}
		u.many[v] = struct{}{}
	}
	return false
}

// Has tells whether v was there before.
func (u *Unique[T]) Has(v T) bool {
	if u.many != nil {
		_, ok := u.many[v]
		return ok
	}
	for _, f := range u.few {
		if f == v {
			return true
		}
	}
	return false
}
