package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/setpoint-project/setpoint/internal/kinds/admissionregistration/expression"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// hook is a webhook of either sort as far as both have rules.
type hook struct {
	name              string
	client            *admissionregistrationv1.WebhookClientConfig
	rules             []admissionregistrationv1.RuleWithOperations
	failurePolicy     *admissionregistrationv1.FailurePolicyType
	matchPolicy       *admissionregistrationv1.MatchPolicyType
	namespaceSelector *metav1.LabelSelector
	objectSelector    *metav1.LabelSelector
	sideEffects       *admissionregistrationv1.SideEffectClass
	timeout           *int32
	versions          []string
	conditions        []admissionregistrationv1.MatchCondition
}

// reviewVersions are those in which we can ask.
var reviewVersions = []string{"v1", "v1beta1"}

// conditionVars are what conditions of webhooks may name.
var conditionVars = cel.OptionalVariableDeclarations{HasAuthorizer: true}

// validateHooks checks a configuration's hooks. stored says that it was there
// before, so that its expressions may be old.
func validateHooks(c *check.Errors, hooks []hook, stored bool) {
	var names check.Unique[string]
	for i := range hooks {
		h, p := &hooks[i], field.NewPath("webhooks").Index(i)
		validateHook(c, h, p, stored)
		validateReviewVersions(c, h.versions, p.Child("admissionReviewVersions"))
		if names.Seen(h.name) {
			c.Duplicate(p, "name", h.name)
		}
	}
}

func validateHook(c *check.Errors, h *hook, path *field.Path, stored bool) {
	c.Add(validation.IsFullyQualifiedName(path.Child("name"), h.name))
	for i := range h.rules {
		validateRule(c, h.rules[i].Operations, &h.rules[i].Rule, path.Child("rules").Index(i))
	}
	validateFailurePolicy(c, h.failurePolicy, path)
	validateMatchPolicy(c, h.matchPolicy, path)
	if h.sideEffects == nil {
		c.Required(path, "sideEffects", "must specify one of None, NoneOnDryRun")
	} else {
		check.Among(c, path, "sideEffects", *h.sideEffects, admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun)
	}
	if t := h.timeout; t != nil && (*t < 1 || *t > 30) {
		c.Invalid(path, "timeoutSeconds", *t, "the timeout value must be between 1 and 30 seconds")
	}
	c.Selector(path, "namespaceSelector", h.namespaceSelector)
	c.Selector(path, "objectSelector", h.objectSelector)
	at := path.Child("clientConfig")
	switch url, service := h.client.URL, h.client.Service; {
	case (url == nil) == (service == nil):
		c.Required(at, "", "exactly one of url or service is required")
	case url != nil:
		c.Add(check.WebhookURL(at.Child("url"), *url))
	default:
		c.Add(check.WebhookService(at.Child("service"), service.Namespace, service.Name, service.Path, service.Port))
	}
	validateConditions(c, h.conditions, path.Child("matchConditions"), func(e *expression.Expression, p *field.Path) field.ErrorList {
		return expression.Check(expression.Plain(), e, conditionVars, stored, p)
	})
}

func validateReviewVersions(c *check.Errors, versions []string, path *field.Path) {
	if len(versions) == 0 {
		c.Required(path, "", "must specify one of "+strings.Join(reviewVersions, ", "))
		return
	}
	var seen check.Unique[string]
	known := false
	for i, version := range versions {
		if seen.Seen(version) {
			c.Invalid(path.Index(i), "", version, "duplicate version")
		}
		c.Text(path.Index(i), "", version, validation.IsDNS1035Label(version))
		known = known || slices.Contains(reviewVersions, version)
	}
	if !known {
		c.Invalid(path, "", versions, fmt.Sprintf("must include at least one of %v", strings.Join(reviewVersions, ", ")))
	}
}
