package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func flowSchema() *kinds.Kind {
	split := strategy.Counted[flowcontrolv1.FlowSchema]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "flowschemas"}, Kind: "FlowSchema", Singular: "flowschema",
		StoragePrefix:            "/registry/flowschemas/",
		Versions:                 []kinds.Version{strategy.Version[flowcontrolv1.FlowSchema, flowcontrolv1.FlowSchemaList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: strategy.NameAge(),
	}
}
