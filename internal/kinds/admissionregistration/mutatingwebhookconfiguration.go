package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
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
		defaultWebhook(webhook{&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, &w.ClientConfig, w.Rules})
		if w.ReinvocationPolicy == nil {
			w.ReinvocationPolicy = new(admissionregistrationv1.NeverReinvocationPolicy)
		}
	}
}
