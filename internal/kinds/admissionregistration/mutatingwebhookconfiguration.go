package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func mutatingWebhookConfiguration() *kinds.Kind {
	split := strategy.Counted[admissionregistrationv1.MutatingWebhookConfiguration]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "mutatingwebhookconfigurations"}, Kind: "MutatingWebhookConfiguration", Singular: "mutatingwebhookconfiguration",
		Categories:    []string{"api-extensions"},
		StoragePrefix: "/registry/mutatingwebhookconfigurations/",
		Versions:      []kinds.Version{strategy.Version[admissionregistrationv1.MutatingWebhookConfiguration, admissionregistrationv1.MutatingWebhookConfigurationList](v1, defaultMutatingWebhookConfiguration)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Validate: strategy.Validate(func(c *admissionregistrationv1.MutatingWebhookConfiguration) field.ErrorList {
			var errs check.Errors
			validateHooks(&errs, mutatingHooks(c), false)
			validateReinvocation(&errs, c)
			return errs.List
		}),
		ValidateUpdate: strategy.ValidateUpdate(func(c, _ *admissionregistrationv1.MutatingWebhookConfiguration) field.ErrorList {
			var errs check.Errors
			validateHooks(&errs, mutatingHooks(c), true)
			validateReinvocation(&errs, c)
			return errs.List
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration", func(o *admissionregistrationv1.MutatingWebhookConfiguration) any { return int64(len(o.Webhooks)) }),
			strategy.Age(),
		},
	}
}

func defaultMutatingWebhookConfiguration(c *admissionregistrationv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		defaultWebhook(defaults{&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, &w.ClientConfig, w.Rules})
		if w.ReinvocationPolicy == nil {
			w.ReinvocationPolicy = new(admissionregistrationv1.NeverReinvocationPolicy)
		}
	}
}

func mutatingHooks(c *admissionregistrationv1.MutatingWebhookConfiguration) []hook {
	var out []hook
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		out = append(out, hook{
			w.Name, &w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.NamespaceSelector, w.ObjectSelector,
			w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions, w.MatchConditions,
		})
	}
	return out
}

func validateReinvocation(c *check.Errors, m *admissionregistrationv1.MutatingWebhookConfiguration) {
	for i := range m.Webhooks {
		if p := m.Webhooks[i].ReinvocationPolicy; p != nil {
			check.Among(c, field.NewPath("webhooks").Index(i), "reinvocationPolicy", *p, admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
		}
	}
}
