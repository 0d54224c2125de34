package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func validatingWebhookConfiguration() *kinds.Kind {
	split := strategy.Counted[admissionregistrationv1.ValidatingWebhookConfiguration]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "validatingwebhookconfigurations"}, Kind: "ValidatingWebhookConfiguration", Singular: "validatingwebhookconfiguration",
		Categories:    []string{"api-extensions"},
		StoragePrefix: "/registry/validatingwebhookconfigurations/",
		Versions:      []kinds.Version{strategy.Version[admissionregistrationv1.ValidatingWebhookConfiguration, admissionregistrationv1.ValidatingWebhookConfigurationList](v1, defaultValidatingWebhookConfiguration)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Validate: strategy.Validate(func(c *admissionregistrationv1.ValidatingWebhookConfiguration) field.ErrorList {
			var errs check.Errors
			validateHooks(&errs, validatingHooks(c), false)
			return errs.List
		}),
		ValidateUpdate: strategy.ValidateUpdate(func(c, _ *admissionregistrationv1.ValidatingWebhookConfiguration) field.ErrorList {
			var errs check.Errors
			validateHooks(&errs, validatingHooks(c), true)
			return errs.List
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration", func(o *admissionregistrationv1.ValidatingWebhookConfiguration) any { return int64(len(o.Webhooks)) }),
			strategy.Age(),
		},
	}
}

func defaultValidatingWebhookConfiguration(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		defaultWebhook(defaults{&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, &w.ClientConfig, w.Rules})
	}
}

func validatingHooks(c *admissionregistrationv1.ValidatingWebhookConfiguration) []hook {
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
