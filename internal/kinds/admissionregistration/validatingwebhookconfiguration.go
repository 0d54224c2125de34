package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
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
		defaultWebhook(webhook{&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, &w.ClientConfig, w.Rules})
	}
}
