package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func validatingAdmissionPolicyBinding() *kinds.Kind {
	split := strategy.Counted[admissionregistrationv1.ValidatingAdmissionPolicyBinding]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "validatingadmissionpolicybindings"}, Kind: "ValidatingAdmissionPolicyBinding", Singular: "validatingadmissionpolicybinding",
		Categories:    []string{"api-extensions"},
		StoragePrefix: "/registry/validatingadmissionpolicybindings/",
		Versions:      []kinds.Version{strategy.Version[admissionregistrationv1.ValidatingAdmissionPolicyBinding, admissionregistrationv1.ValidatingAdmissionPolicyBindingList](v1, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) { defaultMatch(b.Spec.MatchResources) })},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Validate:      strategy.Validate(validateValidatingBinding),
		ValidateUpdate: strategy.ValidateUpdate(func(b, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
			return validateValidatingBinding(b)
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to", func(o *admissionregistrationv1.ValidatingAdmissionPolicyBinding) any { return o.Spec.PolicyName }),
			strategy.Column("ParamRef", "string", "ParamRef indicates the param resource which sets the configration param", func(o *admissionregistrationv1.ValidatingAdmissionPolicyBinding) any {
				return paramRef(o.Spec.ParamRef)
			}),
			strategy.Age(),
		},
	}
}
