package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func validatingAdmissionPolicyBinding() *kinds.Kind {
	split := strategy.Counted[admissionregistrationv1.ValidatingAdmissionPolicyBinding]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "validatingadmissionpolicybindings"}, Kind: "ValidatingAdmissionPolicyBinding", Singular: "validatingadmissionpolicybinding",
		Categories:    []string{"api-extensions"},
		StoragePrefix: "/registry/validatingadmissionpolicybindings/",
		Versions:      []kinds.Version{strategy.Version[admissionregistrationv1.ValidatingAdmissionPolicyBinding, admissionregistrationv1.ValidatingAdmissionPolicyBindingList](v1, nil)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Columns:       strategy.NameAge(),
	}
}
