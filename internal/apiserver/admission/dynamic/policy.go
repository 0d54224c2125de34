package dynamic

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds/admissionregistration/expression"
)

// policy is a ValidatingAdmissionPolicy.
// https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
type policy struct {
	definition
	spec     *admissionregistrationv1.ValidatingAdmissionPolicySpec
	compiled func() *rules // at first use
}

// rules are a policy's expressions.
type rules struct{ conditions, validations, messages cel.ConditionEvaluator }

// binding says where a policy holds, and what is done then.
type binding struct {
	attachment
	actions []admissionregistrationv1.ValidationAction
}

func newPolicy(o client.Object) *policy {
	p := o.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	out := &policy{definition: newDefinition(p.Name, p.Spec.MatchConstraints, p.Spec.ParamKind, p.Spec.FailurePolicy), spec: &p.Spec}
	out.compiled = sync.OnceValue(out.compile)
	return out
}

func newBinding(o client.Object) *binding {
	b := o.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	return &binding{newAttachment(b.Name, b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources), b.Spec.ValidationActions}
}

func (p *policy) compile() *rules {
	vars := cel.OptionalVariableDeclarations{HasParams: p.spec.ParamKind != nil, HasAuthorizer: true}
	c, mode := expression.NewComposer(), expression.Mode(true)
	for _, v := range p.spec.Variables {
		c.CompileAndStoreVariable(expression.Variable(v.Name, v.Expression), vars, mode)
	}
	var conditions, validations, messages []cel.ExpressionAccessor
	for _, m := range p.spec.MatchConditions {
		conditions = append(conditions, expression.Condition(m.Name, m.Expression))
	}
	for _, v := range p.spec.Validations {
		validations = append(validations, expression.Condition("", v.Expression))
		text := v.MessageExpression
		if strings.TrimSpace(text) == "" {
			text = "''"
		}
		messages = append(messages, expression.Message(text))
	}
	plain := cel.OptionalVariableDeclarations{HasParams: vars.HasParams}
	return &rules{
		conditions: c.CompileCondition(conditions, vars, mode), validations: c.CompileCondition(validations, vars, mode),
		messages: c.CompileCondition(messages, plain, mode),
	}
}

// enforce holds a request against every policy that is bound.
func (h *Hooks) enforce(ctx context.Context, r *admission.Request) error {
	policies, bindings := h.policies.all(), h.bindings.all()
	if policies == nil || bindings == nil || isExempt(r) {
		return nil
	}
	vs := &views{r: r}
	for _, p := range policies {
		for _, b := range bindings {
			if b.policy != p.name {
				continue
			}
			if err := h.enforceBound(ctx, p, b, r, vs); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *Hooks) enforceBound(ctx context.Context, p *policy, b *binding, r *admission.Request, vs *views) error {
	version, ok, err := h.applies(ctx, &p.definition, &b.attachment, r)
	if !ok || err != nil {
		return err
	}
	v, err := vs.in(version)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	ns, err := h.namespace(ctx, r)
	if err != nil {
		return err
	}
	params, err := h.params(ctx, &p.definition, &b.attachment, r)
	if err != nil {
		if p.ignore {
			return nil
		}
		return h.act(p, b, r, "failed to configure binding: "+err.Error(), metav1.StatusReasonInvalid)
	}
	for _, param := range params {
		if err := h.judge(ctx, p, b, r, v, param, ns); err != nil {
			return err
		}
	}
	return nil
}

// judge evaluates a policy with one parameter.
func (h *Hooks) judge(ctx context.Context, p *policy, b *binding, r *admission.Request, v *view, param runtime.Object, ns *corev1.Namespace) error {
	rules := p.compiled()
	wrong := func(err error) error {
		if p.ignore {
			return nil
		}
		return h.act(p, b, r, err.Error(), metav1.StatusReasonInvalid)
	}
	if len(p.spec.MatchConditions) > 0 {
		results, err := h.evaluate(ctx, rules.conditions, v, param, ns)
		if err != nil {
			return wrong(err)
		}
		if met, err := all(results); err != nil {
			return wrong(err)
		} else if !met {
			return nil
		}
	}
	results, err := h.evaluate(ctx, rules.validations, v, param, ns)
	if err != nil {
		return wrong(err)
	}
	for i, res := range results {
		rule := &p.spec.Validations[i]
		if res.Error != nil {
			if err := wrong(res.Error); err != nil {
				return err
			}
			continue
		}
		if res.EvalResult.Value() == true {
			continue
		}
		reason := metav1.StatusReasonInvalid
		if rule.Reason != nil {
			reason = *rule.Reason
		}
		if err := h.act(p, b, r, h.message(ctx, rules, i, rule, v, param, ns), reason); err != nil {
			return err
		}
	}
	return nil
}

// message is what the rule says: what its expression makes, else its text.
func (h *Hooks) message(ctx context.Context, rules *rules, i int, rule *admissionregistrationv1.Validation, v *view, param runtime.Object, ns *corev1.Namespace) string {
	if rule.MessageExpression != "" {
		if results, err := h.evaluate(ctx, rules.messages, v, param, ns); err == nil && results[i].Error == nil {
			if text, ok := results[i].EvalResult.Value().(string); ok {
				if text = strings.TrimSpace(text); text != "" && !strings.Contains(text, "\n") {
					return text
				}
			}
		}
	}
	if text := strings.TrimSpace(rule.Message); text != "" {
		return text
	}
	return "failed expression: " + strings.TrimSpace(rule.Expression)
}

// act does what the binding says is done when a rule is broken. Nothing is
// written down for the action Audit: there is no audit log.
func (h *Hooks) act(p *policy, b *binding, r *admission.Request, message string, reason metav1.StatusReason) error {
	for _, action := range b.actions {
		switch action {
		case admissionregistrationv1.Deny:
			text := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", p.name, b.name, message)
			err := r.Forbidden(text)
			err.ErrStatus.Reason, err.ErrStatus.Code = reason, codeOf(reason)
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: text})
			return err
		case admissionregistrationv1.Warn:
			warn(r, []string{fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", p.name, b.name, message)})
		}
	}
	return nil
}

func codeOf(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}
