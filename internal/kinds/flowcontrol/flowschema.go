package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func flowSchema() *kinds.Kind {
	split := strategy.Counted[flowcontrolv1.FlowSchema]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "flowschemas"}, Kind: "FlowSchema", Singular: "flowschema",
		StoragePrefix:            "/registry/flowschemas/",
		Versions:                 []kinds.Version{strategy.Version[flowcontrolv1.FlowSchema, flowcontrolv1.FlowSchemaList](v1, defaultFlowSchema)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateFlowSchema),
		ValidateUpdate:           strategy.ValidateUpdate(func(s, _ *flowcontrolv1.FlowSchema) field.ErrorList { return validateFlowSchema(s) }),
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("PriorityLevel", "string", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"], func(o *flowcontrolv1.FlowSchema) any { return o.Spec.PriorityLevelConfiguration.Name }),
			strategy.Column("MatchingPrecedence", "string", flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()["matchingPrecedence"], func(o *flowcontrolv1.FlowSchema) any { return int64(o.Spec.MatchingPrecedence) }),
			strategy.Column("DistinguisherMethod", "string", flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()["distinguisherMethod"], func(o *flowcontrolv1.FlowSchema) any {
				if o.Spec.DistinguisherMethod == nil {
					return "<none>"
				}
				return string(o.Spec.DistinguisherMethod.Type)
			}),
			strategy.Age(),
			strategy.Column("MissingPL", "string", "references a broken or non-existent PriorityLevelConfiguration", func(o *flowcontrolv1.FlowSchema) any { return missingLevel(o) }),
		},
	}
}

func defaultFlowSchema(s *flowcontrolv1.FlowSchema) {
	if s.Spec.MatchingPrecedence == 0 {
		s.Spec.MatchingPrecedence = 1000
	}
}

func missingLevel(s *flowcontrolv1.FlowSchema) string {
	for _, c := range s.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			return string(c.Status)
		}
	}
	return "?"
}
