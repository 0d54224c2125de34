package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// stored tells of an expression that it was accepted before: it may use what
// an older or newer server let it.
type stored func(expression string) bool

func never(string) bool { return false }

// unchanged is stored for a part that is, or is not, as it was.
func unchanged(same bool) stored { return func(string) bool { return same } }

// expressionsOf is stored for a list that may have been another before.
func expressionsOf(list []resourcev1.DeviceSelector) stored {
	had := map[string]bool{}
	for _, s := range list {
		if s.CEL != nil {
			had[s.CEL.Expression] = true
		}
	}
	return func(expression string) bool { return had[expression] }
}

// validateSelectors compiles the expressions, as the scheduler will.
// https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#selector
func validateSelectors(c *check.Errors, list []resourcev1.DeviceSelector, was stored, path *field.Path) {
	atMost(c, path, "selectors", len(list), resourcev1.DeviceSelectorsMaxSize)
	for i, s := range list {
		p := path.Child("selectors").Index(i)
		switch {
		case s.CEL == nil:
			c.Required(p, "cel", "")
		case s.CEL.Expression == "":
			c.Required(p.Child("cel"), "expression", "")
		case len(s.CEL.Expression) > resourcev1.CELSelectorExpressionMaxLength:
			c.TooLong(p.Child("cel"), "expression", resourcev1.CELSelectorExpressionMaxLength)
		case i < resourcev1.DeviceSelectorsMaxSize: // those beyond are too many anyhow
			validateExpression(c, s.CEL.Expression, was(s.CEL.Expression), p.Child("cel"))
		}
	}
}

func validateExpression(c *check.Errors, expression string, stored bool, path *field.Path) {
	kind := environment.NewExpressions
	if stored {
		kind = environment.StoredExpressions
	}
	got := cel.GetCompiler(cel.Features{}).CompileCELExpression(expression, cel.Options{EnvType: &kind})
	switch {
	case got.Error == nil && got.MaxCost > resourcev1.CELSelectorExpressionMaxCost:
		c.Forbidden(path, "expression", "too complex, exceeds cost limit")
	case got.Error == nil:
	case got.Error.Type == apicel.ErrorTypeInvalid:
		c.Invalid(path, "expression", expression, got.Error.Detail)
	case got.Error.Type == apicel.ErrorTypeRequired:
		c.Required(path, "expression", got.Error.Detail)
	default:
		c.Add(field.ErrorList{field.InternalError(path.Child("expression"), got.Error)})
	}
}
