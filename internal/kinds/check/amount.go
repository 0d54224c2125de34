package check

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Amount wants a number from 0, or a percentage.
func (c *Errors) Amount(path *field.Path, name string, v intstr.IntOrString) {
	switch v.Type {
	case intstr.String:
		for _, msg := range validation.IsValidPercent(v.StrVal) {
			c.Invalid(path, name, v, msg)
		}
	case intstr.Int:
		c.NonNegative(path, name, int64(v.IntVal))
	default:
		c.Invalid(path, name, v, "must be an integer or percentage (e.g '5%%')")
	}
}

// AtMostAll wants no more than 100%.
func (c *Errors) AtMostAll(path *field.Path, name string, v intstr.IntOrString) {
	if n, ok := Percent(v); ok && n > 100 {
		c.Invalid(path, name, v, "must not be greater than 100%")
	}
}

// Percent is the number of a percentage; false: it is none.
func Percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	return n, err == nil
}
