package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func validatingAdmissionPolicy() *kinds.Kind {
	split := strategy.Counted[admissionregistrationv1.ValidatingAdmissionPolicy]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "validatingadmissionpolicies"}, Kind: "ValidatingAdmissionPolicy", Singular: "validatingadmissionpolicy",
		Categories:    []string{"api-extensions"},
		StoragePrefix: "/registry/validatingadmissionpolicies/",
		Versions:      []kinds.Version{strategy.Version[admissionregistrationv1.ValidatingAdmissionPolicy, admissionregistrationv1.ValidatingAdmissionPolicyList](v1, nil)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: strategy.NameAge(),
	}
}
