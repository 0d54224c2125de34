package dynamic

import (
	"context"
	"errors"
	"fmt"
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

// mutation is a MutatingAdmissionPolicy.
// https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
type mutation struct {
	definition
	spec     *admissionregistrationv1.MutatingAdmissionPolicySpec
	again    bool // is evaluated once more when others changed the object
	compiled func() *mutators
}

// mutators are a mutation's expressions.
type mutators struct {
	composer   *expression.Composer
	conditions cel.ConditionEvaluator
	steps      []cel.MutatingEvaluator // one for each of spec.Mutations
}

func newMutation(o client.Object) *mutation {
	p := o.(*admissionregistrationv1.MutatingAdmissionPolicy)
	out := &mutation{definition: newDefinition(p.Name, p.Spec.MatchConstraints, p.Spec.ParamKind, p.Spec.FailurePolicy), spec: &p.Spec}
	out.again = p.Spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
	out.compiled = sync.OnceValue(out.compile)
	return out
}

func newMutationBinding(o client.Object) *attachment {
	b := o.(*admissionregistrationv1.MutatingAdmissionPolicyBinding)
	out := newAttachment(b.Name, b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources)
	return &out
}

func (m *mutation) compile() *mutators {
	vars := cel.OptionalVariableDeclarations{HasParams: m.spec.ParamKind != nil, HasAuthorizer: true}
	out, mode := &mutators{composer: expression.NewComposer()}, expression.Mode(true)
	for _, v := range m.spec.Variables {
		out.composer.CompileAndStoreVariable(expression.Variable(v.Name, v.Expression), vars, mode)
	}
	var conditions []cel.ExpressionAccessor
	for _, c := range m.spec.MatchConditions {
		conditions = append(conditions, expression.Condition(c.Name, c.Expression))
	}
	out.conditions = out.composer.CompileCondition(conditions, vars, mode)
	vars.HasPatchTypes = true
	for i := range m.spec.Mutations {
		out.steps = append(out.steps, out.composer.CompileMutatingEvaluator(mutationExpression(&m.spec.Mutations[i]), vars, mode))
	}
	return out
}

// mutationExpression is the one of the two that the type of the patch asks for.
func mutationExpression(m *admissionregistrationv1.Mutation) *expression.Expression {
	if m.PatchType == admissionregistrationv1.PatchTypeJSONPatch {
		return expression.JSONPatch(m.JSONPatch.Expression)
	}
	return expression.ApplyConfiguration(m.ApplyConfiguration.Expression)
}

// run is one policy that is to change one request, with one parameter.
type run struct {
	*mutation
	by      *attachment
	version version
	param   runtime.Object
}

// key tells a run from the others of a request.
func (u *run) key() string {
	key := u.name + "/" + u.by.name
	if o, ok := u.param.(metav1.Object); ok {
		key += "/" + o.GetNamespace() + "/" + o.GetName()
	}
	return key
}

// denial is what the policies have to say against a request.
type denial struct{ texts []string }

func (d *denial) add(m *mutation, by, text string) {
	if !m.ignore {
		d.texts = append(d.texts, fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", m.name, by, text))
	}
}

// err is a 403 whose reason is that of what went wrong first, as upstream has
// it: settings that cannot be read have none of their own.
func (d *denial) err(r *admission.Request, reason metav1.StatusReason) error {
	if len(d.texts) == 0 {
		return nil
	}
	err := r.Forbidden("")
	err.ErrStatus.Message, err.ErrStatus.Reason = d.texts[0], reason
	for _, text := range d.texts {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: text})
	}
	return err
}

// rewrite lets every policy that is bound change a request's object. All that
// fail are told of.
func (h *Hooks) rewrite(ctx context.Context, r *admission.Request) error {
	all := h.mutations.all()
	if all == nil || r.Operation == admission.Delete || r.Object == nil || isExempt(r) {
		return nil
	}
	settings, failed := &denial{}, &denial{}
	runs, err := h.runs(ctx, all, r, settings)
	if err != nil {
		return err
	}
	ns, err := h.namespaceOfObject(ctx, r)
	if err != nil {
		return err
	}
	vs, again := &views{r: r}, reinvocationOf(r, mutationPlugin)
	for i := range runs {
		u := &runs[i]
		v, err := vs.in(u.version)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		ok, err := h.conditionsOf(ctx, u, v, ns)
		if err != nil {
			failed.add(u.mutation, u.by.name, err.Error())
			continue
		}
		if !ok || again.skips(r, u.key()) {
			continue
		}
		before := r.Object
		for step := range u.spec.Mutations {
			if v, err = vs.in(u.version); err == nil {
				err = h.step(ctx, u, step, r, v, ns)
			}
			if status := apierrors.APIStatus(nil); errors.As(err, &status) {
				return err // the object cannot be written down: nobody's policy lets that pass
			}
			if err != nil {
				failed.add(u.mutation, u.by.name, err.Error())
				continue
			}
			vs = &views{r: r}
		}
		if !same(before, r.Object) {
			again.changed(r)
		}
		if u.again {
			again.want(u.key())
		}
	}
	again.leave(r)
	if err := settings.err(r, metav1.StatusReasonForbidden); err != nil {
		return err
	}
	return failed.err(r, metav1.StatusReasonInvalid)
}

// runs finds who is to change a request.
func (h *Hooks) runs(ctx context.Context, all []*mutation, r *admission.Request, wrong *denial) (out []run, err error) {
	bindings := h.mutationBindings.all()
	for _, m := range all {
		for _, b := range bindings {
			if b.policy != m.name {
				continue
			}
			version, ok, err := h.applies(ctx, &m.definition, b, r)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			params, err := h.params(ctx, &m.definition, b, r)
			if err != nil {
				wrong.add(m, b.name, "failed to configure binding: "+err.Error())
				continue
			}
			for _, param := range params {
				out = append(out, run{m, b, version, param})
			}
		}
	}
	return out, nil
}

// namespaceOfObject is what expressions see as namespaceObject: nil for a
// Namespace.
func (h *Hooks) namespaceOfObject(ctx context.Context, r *admission.Request) (*corev1.Namespace, error) {
	if isNamespace(r) {
		return nil, nil
	}
	return h.namespace(ctx, r)
}

func (h *Hooks) conditionsOf(ctx context.Context, u *run, v *view, ns *corev1.Namespace) (bool, error) {
	if len(u.spec.MatchConditions) == 0 {
		return true, nil
	}
	results, err := h.evaluate(ctx, u.compiled().conditions, v, u.param, ns)
	if err != nil {
		return false, err
	}
	return all(results)
}
