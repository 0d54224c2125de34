package crd

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// validate checks an object by the schema of its version. What was there
// before and has not changed may stay, even where the schema has become
// stricter (ratcheting).
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-ratcheting
func (v *version) validate(ctx context.Context, obj, old kinds.Object, subresource string) field.ErrorList {
	sh, err := v.shape()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	r, err := v.rules()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	c := &check{version: v, shape: sh, rules: r, object: obj.(*Object)}
	if old != nil {
		c.old = old.(*Object)
	}
	if c.quick(subresource == "status") {
		return nil
	}
	c.now = c.object.content()
	if old != nil {
		c.was = c.old.content()
		c.between = common.NewCorrelatedObject(c.now, c.was, &model.Structural{Structural: sh.structural})
	}
	c.values(subresource == "status")
	if sh.structural == nil {
		return c.errs
	}
	if subresource != "status" && sh.embedded {
		c.errs = append(c.errs, objectmeta.Validate(ctx, nil, c.now, sh.structural, false)...)
	}
	c.lists()
	c.expressions(ctx)
	return c.errs
}

// check is one validation under way.
type check struct {
	version *version
	shape   *shape
	rules   *rules
	object  *Object
	old     *Object // nil for a new object
	now     map[string]any
	was     map[string]any           // nil for a new object
	between *common.CorrelatedObject // nil for a new object
	errs    field.ErrorList
}

// quick tells that the object is beyond doubt, without a look by the libraries:
// its schema has no rules, and it is plainly what the schema says.
func (c *check) quick(status bool) bool {
	if c.shape.structural == nil || c.shape.embedded || c.rules.cel != nil || len(c.version.scale.check(c.object, !status)) > 0 {
		return false
	}
	if !status {
		return c.rules.quick.acceptsObject(c.object)
	}
	now, ok := c.object.Fields["status"]
	return !ok || c.rules.status == nil || c.rules.quickStatus.accepts(now)
}

// values checks types, ranges and whatever OpenAPI can say.
func (c *check) values(status bool) {
	switch {
	case status:
		if now, ok := c.now["status"]; ok && c.rules.status != nil && !c.rules.quickStatus.accepts(now) {
			c.errs = append(c.errs, validation.ValidateCustomResourceUpdate(field.NewPath("status"), now, c.was["status"], c.rules.status,
				validation.WithRatcheting(c.between.Key("status")))...)
		}
	case c.rules.whole == nil, c.rules.quick.accepts(c.now):
	case c.was != nil:
		c.errs = append(c.errs, validation.ValidateCustomResourceUpdate(nil, c.now, c.was, c.rules.whole, validation.WithRatcheting(c.between))...)
	default:
		c.errs = append(c.errs, validation.ValidateCustomResource(nil, c.now, c.rules.whole)...)
	}
	c.errs = append(c.errs, c.version.scale.check(c.object, !status)...)
}

// lists checks that sets and maps name nothing twice, unless they did before.
func (c *check) lists() {
	if !c.shape.unique {
		return
	}
	errs := listtype.ValidateListSetsAndMaps(nil, c.shape.structural, c.now)
	if len(errs) > 0 && c.was != nil && len(listtype.ValidateListSetsAndMaps(nil, c.shape.structural, c.was)) > 0 {
		return
	}
	c.errs = append(c.errs, errs...)
}

// expressions checks the rules written in CEL. They rely on values being of
// their types and sizes.
func (c *check) expressions(ctx context.Context) {
	if c.rules.cel == nil {
		return
	}
	for _, e := range c.errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			c.errs = append(c.errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
			return
		}
	}
	var was any
	var opts []cel.Option
	if c.was != nil {
		was = c.was
		opts = append(opts, cel.WithRatcheting(c.between))
	}
	errs, _ := c.rules.cel.Validate(ctx, nil, c.shape.structural, c.now, was, celconfig.RuntimeCELCostBudget, opts...)
	c.errs = append(c.errs, errs...)
}
