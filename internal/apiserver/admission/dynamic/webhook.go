package dynamic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds/admissionregistration/expression"
)

// hook is one webhook of a configuration.
type hook struct {
	scope
	name        string
	key         string // tells it from all others
	client      *admissionregistrationv1.WebhookClientConfig
	ignore      bool // what goes wrong is let pass
	again       bool // is asked once more when others changed the object
	sideEffects bool // also in a dry run
	timeout     time.Duration
	version     string // of the review: v1 or v1beta1

	texts      []admissionregistrationv1.MatchCondition
	conditions func() cel.ConditionEvaluator // compiled at first use
	caller     func() (*caller, error)       // made at first use
}

func (hs *Hooks) mutatingHooks(o client.Object) []*hook {
	var out []*hook
	c := o.(*admissionregistrationv1.MutatingWebhookConfiguration)
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		h := hs.newHook(w.Name, &w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions, w.MatchConditions)
		h.namespaces, h.objects = selector(w.NamespaceSelector), selector(w.ObjectSelector)
		h.key = c.Name + "/" + w.Name
		h.again = w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
		out = append(out, h)
	}
	return out
}

func (hs *Hooks) validatingHooks(o client.Object) []*hook {
	var out []*hook
	c := o.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		h := hs.newHook(w.Name, &w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions, w.MatchConditions)
		h.namespaces, h.objects = selector(w.NamespaceSelector), selector(w.ObjectSelector)
		out = append(out, h)
	}
	return out
}

func (hs *Hooks) newHook(name string, client *admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations,
	failure *admissionregistrationv1.FailurePolicyType, match *admissionregistrationv1.MatchPolicyType, effects *admissionregistrationv1.SideEffectClass,
	seconds *int32, versions []string, conditions []admissionregistrationv1.MatchCondition) *hook {
	h := &hook{
		name: name, client: client, timeout: 10 * time.Second, version: "v1", texts: conditions,
		ignore:      failure != nil && *failure == admissionregistrationv1.Ignore,
		sideEffects: effects == nil || *effects != admissionregistrationv1.SideEffectClassNone && *effects != admissionregistrationv1.SideEffectClassNoneOnDryRun,
	}
	h.equivalent = match == nil || *match == admissionregistrationv1.Equivalent
	for _, r := range rules {
		h.rules = append(h.rules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: r})
	}
	if seconds != nil {
		h.timeout = time.Duration(*seconds) * time.Second
	}
	for _, v := range versions {
		if v == "v1" || v == "v1beta1" {
			h.version = v
			break
		}
	}
	h.conditions = sync.OnceValue(func() cel.ConditionEvaluator { return compileConditions(h.texts) })
	h.caller = sync.OnceValues(func() (*caller, error) { return newCaller(h.client, hs.cfg.Reach) })
	return h
}

func compileConditions(texts []admissionregistrationv1.MatchCondition) cel.ConditionEvaluator {
	var results []cel.CompilationResult
	for _, c := range texts {
		results = append(results, expression.Plain().CompileCELExpression(expression.Condition(c.Name, c.Expression), cel.OptionalVariableDeclarations{HasAuthorizer: true}, expression.Mode(true)))
	}
	return cel.NewCondition(results)
}

// wants tells whether a webhook is to be asked, and in which version.
func (h *Hooks) wants(ctx context.Context, w *hook, r *admission.Request, vs *views) (*view, error) {
	version, ok := w.match(r)
	if !ok {
		return nil, nil
	}
	if ok, err := h.selects(ctx, &w.scope, r); !ok || err != nil {
		return nil, err
	}
	v, err := vs.in(version)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if len(w.texts) == 0 {
		return v, nil
	}
	met, err := h.conditionsMet(ctx, w.conditions(), v, r)
	if err != nil {
		if w.ignore {
			return nil, nil
		}
		return nil, r.Forbidden(fmt.Sprintf("webhook %q match conditions: %v", w.name, err))
	}
	if !met {
		return nil, nil
	}
	return v, nil
}

// conditionsMet is false when any is false, however the others failed.
func (h *Hooks) conditionsMet(ctx context.Context, e cel.ConditionEvaluator, v *view, r *admission.Request) (bool, error) {
	ns, err := h.namespace(ctx, r)
	if err != nil {
		return false, err
	}
	results, err := h.evaluate(ctx, e, v, nil, ns)
	if err != nil {
		return false, err
	}
	return all(results)
}

func all(results []cel.EvaluationResult) (bool, error) {
	var errs []error
	for _, res := range results {
		if res.Error != nil {
			errs = append(errs, res.Error)
		} else if res.EvalResult.Value() != true {
			return false, nil
		}
	}
	return true, errors.Join(errs...)
}

// mutate asks the mutating webhooks in their order.
func (h *Hooks) mutate(ctx context.Context, r *admission.Request) error {
	configs := h.mutating.all()
	if configs == nil || isExempt(r) {
		return nil
	}
	vs, again := &views{r: r}, reinvocationOf(r, webhookPlugin)
	for _, config := range configs {
		for _, w := range config {
			if again.skips(r, w.key) {
				continue
			}
			called, changed, err := h.patch(ctx, w, r, vs)
			if err != nil {
				return err
			}
			if changed {
				vs = &views{r: r}
				again.changed(r)
			}
			if called && w.again {
				again.want(w.key)
			}
		}
	}
	again.leave(r)
	return nil
}

// patch asks one mutating webhook.
func (h *Hooks) patch(ctx context.Context, w *hook, r *admission.Request, vs *views) (called, changed bool, err error) {
	v, err := h.wants(ctx, w, r, vs)
	if v == nil || err != nil {
		return false, false, err
	}
	response, err := h.ask(ctx, w, r, v)
	if response == nil || err != nil {
		return true, false, err
	}
	if len(response.Patch) == 0 {
		return true, false, nil
	}
	if changed, err = applyPatch(r, v, response.Patch); err != nil {
		return true, false, apierrors.NewInternalError(err)
	}
	return true, changed, nil
}

// validate asks the validating webhooks at once. Of several refusals the first
// in their order is the answer.
func (h *Hooks) validate(ctx context.Context, r *admission.Request) error {
	configs := h.validating.all()
	if configs == nil || isExempt(r) {
		return nil
	}
	calls, err := h.due(ctx, r, configs)
	if err != nil {
		return err
	}
	return h.askAll(ctx, r, calls)
}

// call is one review that is to be sent.
type call struct {
	hook *hook
	view *view
	err  error
}

func (h *Hooks) due(ctx context.Context, r *admission.Request, configs [][]*hook) (calls []*call, err error) {
	vs := &views{r: r}
	for _, config := range configs {
		for _, w := range config {
			v, err := h.wants(ctx, w, r, vs)
			if err != nil {
				return nil, err
			}
			if v != nil {
				calls = append(calls, &call{hook: w, view: v})
			}
		}
	}
	return calls, nil
}

func (h *Hooks) askAll(ctx context.Context, r *admission.Request, calls []*call) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range calls {
		wg.Go(func() {
			_, c.err = h.ask(ctx, c.hook, r, c.view)
		})
	}
	wg.Wait()
	for _, c := range calls {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// failed is the answer when a webhook could not be asked.
func (w *hook) failed(err error) error {
	if w.ignore {
		return nil
	}
	text := err.Error()
	if !strings.HasPrefix(text, "received invalid webhook response") {
		text = "failed to call webhook: " + text
	}
	return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %s", w.name, text))
}
