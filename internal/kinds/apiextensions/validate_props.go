package apiextensions

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The walk over a schema finds what OpenAPI could say and custom resources may
// not, what the x-kubernetes extensions want of each other, and what is wrong
// with rules in CEL. The last are told only where all else is right: wrong
// types make for messages that help nobody.

// types are those of OpenAPI that fields may have.
var types = []string{"array", "boolean", "integer", "number", "object", "string"}

// place is what a field inherits from those around it.
type place struct {
	noDefault string      // why defaults are forbidden; "": they are not
	inMeta    bool        // within apiVersion, kind or metadata
	unrelated *field.Path // the first list or map around, old and new of whose items cannot be told to belong together
	count     uint64      // how often it can be there; unbounded: no limit
	rules     bool        // rules are compiled here
}

// walk is one walk. The errors of rules are kept apart.
type walk struct {
	errs, ruleErrs field.ErrorList
	costs          costs
}

// validateProps walks over a whole schema. expressions says whether it is
// structural, so that rules can be compiled.
func validateProps(props *apiextensions.JSONSchemaProps, path *field.Path, expressions bool) field.ErrorList {
	w := &walk{}
	w.node(props, path, place{count: 1, rules: expressions}, true)
	if expressions {
		w.costs.check(path, &w.ruleErrs)
	}
	return append(w.errs, w.ruleErrs...)
}

func (w *walk) invalid(path *field.Path, value any, detail string) {
	w.errs = append(w.errs, field.Invalid(path, value, detail))
}
func (w *walk) forbidden(path *field.Path, detail string) {
	w.errs = append(w.errs, field.Forbidden(path, detail))
}
func (w *walk) required(path *field.Path, detail string) {
	w.errs = append(w.errs, field.Required(path, detail))
}

// node looks at one schema and all below it.
func (w *walk) node(s *apiextensions.JSONSchemaProps, path *field.Path, at place, root bool) {
	if s == nil {
		return
	}
	before := len(w.errs)
	w.unsupported(s, path, at)
	w.children(s, path, at, root)
	w.extensions(s, path)
	w.listMap(s, path)
	w.keys(s, path)
	w.ruleForms(s, path)
	if len(s.XValidations) > 0 && at.rules && len(w.errs) == before {
		w.compile(s, path, at, root)
	}
}

// unsupported is what JSON schema has and custom resources have not.
func (w *walk) unsupported(s *apiextensions.JSONSchemaProps, path *field.Path, at place) {
	if s.Type != "" && !slices.Contains(types, s.Type) {
		w.errs = append(w.errs, field.NotSupported(path.Child("type"), s.Type, types))
	}
	if s.Default != nil && at.noDefault != "" {
		w.forbidden(path.Child("default"), "must not be set "+at.noDefault)
	}
	for _, one := range []struct {
		set    bool
		name   string
		detail string
	}{
		{s.ID != "", "id", "id is not supported"},
		{s.AdditionalItems != nil, "additionalItems", "additionalItems is not supported"},
		{len(s.PatternProperties) != 0, "patternProperties", "patternProperties is not supported"},
		{len(s.Definitions) != 0, "definitions", "definitions is not supported"},
		{s.Dependencies != nil, "dependencies", "dependencies is not supported"},
		{s.Ref != nil, "$ref", "$ref is not supported"},
		{s.Type == "null", "type", "type cannot be set to null, use nullable as an alternative"},
		{s.Items != nil && len(s.Items.JSONSchemas) != 0, "items", "items must be a schema object and not an array"},
		{at.inMeta && s.XEmbeddedResource, "x-kubernetes-embedded-resource", "must not be used inside of resource meta"},
		{s.UniqueItems, "uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"},
	} {
		if one.set {
			w.forbidden(path.Child(one.name), one.detail)
		}
	}
	if a := s.AdditionalProperties; a != nil && len(s.Properties) != 0 && (!a.Allows || a.Schema != nil) {
		w.forbidden(path.Child("additionalProperties"), "additionalProperties and properties are mutual exclusive")
	}
}

func (w *walk) children(s *apiextensions.JSONSchemaProps, path *field.Path, at place, root bool) {
	inner := at
	inner.count = multiply(at.count, elements(s))
	if s.AdditionalProperties != nil {
		one := inner
		if at.inMeta {
			one.noDefault = "inside additionalProperties applying to object metadata"
		}
		w.node(s.AdditionalProperties.Schema, path.Child("additionalProperties"), one, false)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p, one := s.Properties[name], inner
		if !cel.MapIsCorrelatable(s.XMapType) && one.unrelated == nil {
			one.unrelated = path
		}
		if (root || s.XEmbeddedResource) && (name == "apiVersion" || name == "kind" || name == "metadata") {
			one.inMeta = true
			if root {
				one.noDefault = "in top-level " + name
			}
		}
		w.node(&p, path.Child("properties").Key(name), one, false)
	}
	if s.Items != nil {
		one := inner
		if (s.XListType == nil || *s.XListType != "map") && one.unrelated == nil {
			one.unrelated = path
		}
		w.node(s.Items.Schema, path.Child("items"), one, false)
	}
	logic := at
	logic.rules = false
	w.node(s.Not, path.Child("not"), logic, false)
	for _, l := range []struct {
		name string
		list []apiextensions.JSONSchemaProps
	}{{"allOf", s.AllOf}, {"oneOf", s.OneOf}, {"anyOf", s.AnyOf}} {
		for i := range l.list {
			w.node(&l.list[i], path.Child(l.name).Index(i), logic, false)
		}
	}
}

// extensions are those that stand by themselves.
func (w *walk) extensions(s *apiextensions.JSONSchemaProps, path *field.Path) {
	if p := s.XPreserveUnknownFields; p != nil && !*p {
		w.invalid(path.Child("x-kubernetes-preserve-unknown-fields"), *p, "must be true or undefined")
	}
	if s.XMapType == nil {
		return
	}
	const object = "must be object if x-kubernetes-map-type is specified"
	if s.Type == "" {
		w.required(path.Child("type"), object)
	} else if s.Type != "object" {
		w.invalid(path.Child("type"), s.Type, object)
	}
	if accepted := []string{"atomic", "granular"}; !slices.Contains(accepted, *s.XMapType) {
		w.errs = append(w.errs, field.NotSupported(path.Child("x-kubernetes-map-type"), *s.XMapType, accepted))
	}
}

// ruleForms checks the rules but for what they say.
func (w *walk) ruleForms(s *apiextensions.JSONSchemaProps, path *field.Path) {
	for i, r := range s.XValidations {
		at := path.Child("x-kubernetes-validations").Index(i)
		rule, message := strings.TrimSpace(r.Rule), strings.TrimSpace(r.Message)
		switch {
		case rule == "":
			w.required(at.Child("rule"), "rule is not specified")
		case r.Message != "" && message == "":
			w.invalid(at.Child("message"), r.Message, "must be non-empty if specified")
		case broken(message):
			w.invalid(at.Child("message"), r.Message, "must not contain line breaks")
		case broken(rule) && message == "":
			w.required(at.Child("message"), "message must be specified if rule contains line breaks")
		}
		if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
			w.required(at.Child("messageExpression"), "messageExpression must be non-empty if specified")
		}
		if r.Reason != nil && !slices.Contains(reasons, string(*r.Reason)) {
			w.errs = append(w.errs, field.NotSupported(at.Child("reason"), *r.Reason, reasons))
		}
		if r.FieldPath == "" {
			continue
		}
		if strings.TrimSpace(r.FieldPath) == "" {
			w.invalid(at.Child("fieldPath"), r.FieldPath, "must be non-empty if specified")
		}
		if broken(r.FieldPath) {
			w.invalid(at.Child("fieldPath"), r.FieldPath, "must not contain line breaks")
		}
		if !leadsSomewhere(s, r.FieldPath) {
			w.invalid(at.Child("fieldPath"), r.FieldPath, "must be a valid path")
		}
	}
}

// reasons that a rule may give.
var reasons = []string{
	string(apiextensions.FieldValueDuplicate), string(apiextensions.FieldValueForbidden),
	string(apiextensions.FieldValueInvalid), string(apiextensions.FieldValueRequired),
}

var lineBreak = regexp.MustCompile(`[\n\r]`)

func broken(text string) bool { return lineBreak.MatchString(text) }
