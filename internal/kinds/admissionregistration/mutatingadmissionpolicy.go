package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func mutatingAdmissionPolicy() *kinds.Kind {
	split := strategy.Counted[admissionregistrationv1.MutatingAdmissionPolicy]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "mutatingadmissionpolicies"}, Kind: "MutatingAdmissionPolicy", Singular: "mutatingadmissionpolicy",
		Categories:    []string{"api-extensions"},
		StoragePrefix: "/registry/mutatingadmissionpolicies/",
		Versions:      []kinds.Version{strategy.Version[admissionregistrationv1.MutatingAdmissionPolicy, admissionregistrationv1.MutatingAdmissionPolicyList](v1, defaultMutatingAdmissionPolicy)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Validate: strategy.Validate(func(p *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
			return validateMutatingPolicy(p, false)
		}),
		ValidateUpdate: strategy.ValidateUpdate(func(p, old *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
			// What was accepted once need not be compiled again for a label.
			if apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
				return nil
			}
			return validateMutatingPolicy(p, true)
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Mutations", "integer", "Mutation indicates the number of mutations rules defined in this configuration", func(o *admissionregistrationv1.MutatingAdmissionPolicy) any { return int64(len(o.Spec.Mutations)) }),
			strategy.Column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy", func(o *admissionregistrationv1.MutatingAdmissionPolicy) any { return paramKind(o.Spec.ParamKind) }),
			strategy.Age(),
		},
	}
}

func defaultMutatingAdmissionPolicy(p *admissionregistrationv1.MutatingAdmissionPolicy) {
	if p.Spec.FailurePolicy == nil {
		p.Spec.FailurePolicy = new(admissionregistrationv1.Fail)
	}
	defaultMatch(p.Spec.MatchConstraints)
}
