package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func validatingAdmissionPolicy() *kinds.Kind {
	split := strategy.Counted[admissionregistrationv1.ValidatingAdmissionPolicy]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "validatingadmissionpolicies"}, Kind: "ValidatingAdmissionPolicy", Singular: "validatingadmissionpolicy",
		Categories:    []string{"api-extensions"},
		StoragePrefix: "/registry/validatingadmissionpolicies/",
		Versions:      []kinds.Version{strategy.Version[admissionregistrationv1.ValidatingAdmissionPolicy, admissionregistrationv1.ValidatingAdmissionPolicyList](v1, defaultValidatingAdmissionPolicy)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Validate: strategy.Validate(func(p *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
			return validateValidatingPolicy(p, false)
		}),
		ValidateUpdate: strategy.ValidateUpdate(func(p, old *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
			// What was accepted once need not be compiled again for a label.
			if apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
				return nil
			}
			return validateValidatingPolicy(p, true)
		}),
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Validations", "integer", "Validations indicates the number of validation rules defined in this configuration", func(o *admissionregistrationv1.ValidatingAdmissionPolicy) any { return int64(len(o.Spec.Validations)) }),
			strategy.Column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy", func(o *admissionregistrationv1.ValidatingAdmissionPolicy) any { return paramKind(o.Spec.ParamKind) }),
			strategy.Age(),
		},
	}
}

func defaultValidatingAdmissionPolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
	if p.Spec.FailurePolicy == nil {
		p.Spec.FailurePolicy = new(admissionregistrationv1.Fail)
	}
	defaultMatch(p.Spec.MatchConstraints)
}
