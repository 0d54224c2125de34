package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func mutatingAdmissionPolicyBinding() *kinds.Kind {
	split := strategy.Counted[admissionregistrationv1.MutatingAdmissionPolicyBinding]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "mutatingadmissionpolicybindings"}, Kind: "MutatingAdmissionPolicyBinding", Singular: "mutatingadmissionpolicybinding",
		Categories:    []string{"api-extensions"},
		StoragePrefix: "/registry/mutatingadmissionpolicybindings/",
		Versions:      []kinds.Version{strategy.Version[admissionregistrationv1.MutatingAdmissionPolicyBinding, admissionregistrationv1.MutatingAdmissionPolicyBindingList](v1, func(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) { defaultMatch(b.Spec.MatchResources) })},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Validate:      strategy.Validate(validateMutatingBinding),
		ValidateUpdate: strategy.ValidateUpdate(func(b, _ *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
			return validateMutatingBinding(b)
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to", func(o *admissionregistrationv1.MutatingAdmissionPolicyBinding) any { return o.Spec.PolicyName }),
			strategy.Column("ParamRef", "string", "ParamRef indicates the param resource which sets the configration param", func(o *admissionregistrationv1.MutatingAdmissionPolicyBinding) any { return paramRef(o.Spec.ParamRef) }),
			strategy.Age(),
		},
	}
}
