package storage

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// Rules that kinds of this group share.

const (
	maxParameters     = 512
	maxParametersSize = 256 << 10
)

func validateProvisioner(c *check.Errors, path *field.Path, name string) {
	if name == "" {
		c.Required(path, "", "")
		return
	}
	c.Text(path, "", name, validation.IsQualifiedName(strings.ToLower(name)))
}

// validateParameters checks what a class tells its driver. Some classes make
// no sense without.
func validateParameters(c *check.Errors, parameters map[string]string, mayLack bool) {
	path := field.NewPath("parameters")
	if len(parameters) > maxParameters {
		c.TooLong(path, "", maxParameters)
		return
	}
	size := 0
	for key, value := range parameters {
		if key == "" {
			c.Invalid(path, "", key, "field can not be empty.")
		}
		size += len(key) + len(value)
	}
	if size > maxParametersSize {
		c.TooLong(path, "", maxParametersSize)
	}
	if len(parameters) == 0 && !mayLack {
		c.Required(path, "", "must contain at least one key/value pair")
	}
}
