package admissionregistration

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/setpoint-project/setpoint/internal/kinds/admissionregistration/expression"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// policyCheck is one check of one policy. Its variables are compiled in the
// order in which they stand; expressions after them may name them.
type policyCheck struct {
	check.Errors
	vars     cel.OptionalVariableDeclarations
	stored   bool
	composer *expression.Composer
}

func newPolicyCheck(params, stored bool) *policyCheck {
	return &policyCheck{
		vars:     cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true},
		stored:   stored,
		composer: expression.NewComposer(),
	}
}

func (s *policyCheck) compile(e *expression.Expression, path *field.Path) field.ErrorList {
	return expression.Check(s.composer, e, s.vars, s.stored, path)
}

func (s *policyCheck) constraints(m *admissionregistrationv1.MatchResources, path *field.Path) {
	if m == nil {
		s.Required(path, "matchConstraints", "")
		return
	}
	p := path.Child("matchConstraints")
	validateMatch(&s.Errors, m, p)
	if len(m.ResourceRules) == 0 {
		s.Required(p, "resourceRules", "")
	}
}

func (s *policyCheck) failurePolicy(p *admissionregistrationv1.FailurePolicyType, path *field.Path) {
	if p == nil {
		s.Required(path, "failurePolicy", "")
		return
	}
	validateFailurePolicy(&s.Errors, p, path)
}

func (s *policyCheck) variables(list []admissionregistrationv1.Variable, path *field.Path) {
	for i, v := range list {
		p := path.Index(i)
		switch {
		case strings.TrimSpace(v.Name) == "":
			s.Required(p, "name", "name is not specified")
		case !identifier(v.Name):
			s.Invalid(p, "name", v.Name, "name is not a valid CEL identifier")
		}
		e := expression.Variable(v.Name, v.Expression)
		if e.Text == "" {
			s.Required(p, "expression", "expression is not specified")
			continue
		}
		s.Add(expression.Explain(s.composer.CompileAndStoreVariable(e, s.vars, expression.Mode(s.stored)), e, p.Child("expression")))
	}
}

// identifier tells whether expressions can name a variable.
func identifier(name string) bool {
	switch name {
	case "false", "in", "null", "true":
		return false
	}
	for i, r := range name {
		if !(r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || i > 0 && '0' <= r && r <= '9') {
			return false
		}
	}
	return name != ""
}

func (s *policyCheck) validations(list []admissionregistrationv1.Validation, path *field.Path) {
	for i, v := range list {
		p := path.Index(i)
		if e := expression.Condition("", v.Expression); e.Text == "" {
			s.Required(p, "expression", "expression is not specified")
		} else {
			s.Add(s.compile(e, p.Child("expression")))
		}
		if e := expression.Message(v.MessageExpression); v.MessageExpression != "" && e.Text == "" {
			s.Invalid(p, "messageExpression", v.MessageExpression, "must be non-empty if specified")
		} else if e.Text != "" {
			vars := s.vars // a message is no place to ask who may do what
			vars.HasAuthorizer = false
			s.Add(expression.Check(s.composer, e, vars, s.stored, p.Child("messageExpression")))
		}
		message := strings.TrimSpace(v.Message)
		switch {
		case v.Message != "" && message == "":
			s.Invalid(p, "message", v.Message, "message must be non-empty if specified")
		case strings.ContainsAny(message, "\n\r"):
			s.Invalid(p, "message", v.Message, "message must not contain line breaks")
		case strings.ContainsAny(strings.TrimSpace(v.Expression), "\n\r") && message == "":
			s.Required(p, "message", "message must be specified if expression contains line breaks")
		}
		if v.Reason != nil {
			check.Among(&s.Errors, p, "reason", *v.Reason, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnauthorized)
		}
	}
}

const (
	maxAnnotations   = 20
	maxAnnotationKey = 5 << 10
)

func (s *policyCheck) annotations(policy string, list []admissionregistrationv1.AuditAnnotation, path *field.Path) {
	if len(list) > maxAnnotations {
		s.TooMany(path, "", len(list), maxAnnotations)
		return
	}
	var keys check.Unique[string]
	for i, a := range list {
		p := path.Index(i)
		switch {
		case a.Key == "":
			s.Required(p, "key", "key is not specified")
		case policy != "":
			s.Qualified(p, "key", policy+"/"+a.Key)
		default:
			s.Qualified(p, "key", a.Key)
		}
		switch e := expression.Annotation(a.ValueExpression); {
		case e.Text == "":
			s.Required(p, "valueExpression", "valueExpression is not specified")
		case len(e.Text) > maxAnnotationKey:
			s.Required(p, "valueExpression", fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationKey))
		default:
			s.Add(s.compile(e, p.Child("valueExpression")))
		}
		if keys.Seen(a.Key) {
			s.Duplicate(p, "key", a.Key)
		}
	}
}

func validateValidatingPolicy(v *admissionregistrationv1.ValidatingAdmissionPolicy, stored bool) field.ErrorList {
	spec, path := &v.Spec, field.NewPath("spec")
	s := newPolicyCheck(spec.ParamKind != nil, stored)
	s.failurePolicy(spec.FailurePolicy, path)
	if spec.ParamKind != nil {
		validateParamKind(&s.Errors, spec.ParamKind, path.Child("paramKind"))
	}
	s.constraints(spec.MatchConstraints, path)
	s.variables(spec.Variables, path.Child("variables"))
	validateConditions(&s.Errors, spec.MatchConditions, path.Child("matchConditions"), s.compile)
	if len(spec.Validations)+len(spec.AuditAnnotations) == 0 {
		const detail = "validations or auditAnnotations must contain at least one item"
		s.Required(path, "validations", detail)
		s.Required(path, "auditAnnotations", detail)
	}
	s.validations(spec.Validations, path.Child("validations"))
	s.annotations(v.Name, spec.AuditAnnotations, path.Child("auditAnnotations"))
	return s.List
}

func validateMutatingPolicy(m *admissionregistrationv1.MutatingAdmissionPolicy, stored bool) field.ErrorList {
	spec, path := &m.Spec, field.NewPath("spec")
	s := newPolicyCheck(spec.ParamKind != nil, stored)
	s.failurePolicy(spec.FailurePolicy, path)
	if spec.ParamKind != nil {
		validateParamKind(&s.Errors, spec.ParamKind, path.Child("paramKind"))
	}
	s.constraints(spec.MatchConstraints, path)
	s.variables(spec.Variables, path.Child("variables"))
	validateConditions(&s.Errors, spec.MatchConditions, path.Child("matchConditions"), s.compile)
	if len(spec.Mutations) == 0 {
		s.Required(path, "mutations", "mutations must contain at least one item")
	}
	s.vars.HasPatchTypes = true
	for i := range spec.Mutations {
		s.mutation(&spec.Mutations[i], path.Child("mutations").Index(i))
	}
	if spec.ReinvocationPolicy == "" {
		s.Required(path, "reinvocationPolicy", "")
	} else {
		check.Among(&s.Errors, path, "reinvocationPolicy", spec.ReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
	}
	return s.List
}

func (s *policyCheck) mutation(m *admissionregistrationv1.Mutation, path *field.Path) {
	apply, patch := "", ""
	if m.ApplyConfiguration != nil {
		apply = m.ApplyConfiguration.Expression
	}
	if m.JSONPatch != nil {
		patch = m.JSONPatch.Expression
	}
	one := func(name string, there bool, e *expression.Expression, other string, otherThere bool) {
		switch {
		case !there:
			s.Required(path, name, "must be specified when patchType is "+string(m.PatchType))
		case e.Text == "":
			s.Required(path.Child(name), "expression", "expression is not specified")
		default:
			s.Add(s.compile(e, path.Child(name, "expression")))
		}
		if otherThere {
			s.Invalid(path, other, "", "must not be specified when patchType is "+string(m.PatchType))
		}
	}
	switch m.PatchType {
	case "":
		s.Required(path, "patchType", "")
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		one("applyConfiguration", m.ApplyConfiguration != nil, expression.ApplyConfiguration(apply), "jsonPatch", m.JSONPatch != nil)
	case admissionregistrationv1.PatchTypeJSONPatch:
		one("jsonPatch", m.JSONPatch != nil, expression.JSONPatch(patch), "applyConfiguration", m.ApplyConfiguration != nil)
	default:
		check.Among(&s.Errors, path, "patchType", m.PatchType, admissionregistrationv1.PatchTypeApplyConfiguration, admissionregistrationv1.PatchTypeJSONPatch)
	}
}

func validateValidatingBinding(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	var c check.Errors
	spec, path := &b.Spec, field.NewPath("spec")
	validateBinding(&c, spec.PolicyName, spec.ParamRef, spec.MatchResources, path)
	const audit, deny, warn = admissionregistrationv1.Audit, admissionregistrationv1.Deny, admissionregistrationv1.Warn
	var seen check.Unique[admissionregistrationv1.ValidationAction]
	for i, action := range spec.ValidationActions {
		check.Among(&c, path.Child("validationActions").Index(i), "", action, audit, deny, warn)
		if seen.Seen(action) {
			c.Duplicate(path.Child("validationActions").Index(i), "", action)
		}
	}
	if seen.Has(deny) && seen.Has(warn) {
		c.Invalid(path, "validationActions", spec.ValidationActions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)")
	}
	if len(spec.ValidationActions) == 0 {
		c.Required(path, "validationActions", "at least one validation action is required")
	}
	return c.List
}

func validateMutatingBinding(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	var c check.Errors
	validateBinding(&c, b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, field.NewPath("spec"))
	return c.List
}

func validateBinding(c *check.Errors, policy string, ref *admissionregistrationv1.ParamRef, match *admissionregistrationv1.MatchResources, path *field.Path) {
	if policy == "" {
		c.Required(path, "policyName", "")
	} else {
		c.Subdomain(path, "policyName", policy)
	}
	if ref != nil {
		validateParamRef(c, ref, path.Child("paramRef"))
	}
	if match != nil {
		validateMatch(c, match, path.Child("matchResources"))
	}
}
