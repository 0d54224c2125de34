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
		Versions:      []kinds.Version{strategy.Version[admissionregistrationv1.MutatingWebhookConfiguration, admissionregistrationv1.MutatingWebhookConfigurationList](v1, nil)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Columns:       strategy.NameAge(),
	}
}
