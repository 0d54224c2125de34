package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func resourceSlice() *kinds.Kind {
	split := strategy.Counted[resourcev1.ResourceSlice]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "resourceslices"}, Kind: "ResourceSlice", Singular: "resourceslice",
		StoragePrefix:            "/registry/resourceslices/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.ResourceSlice, resourcev1.ResourceSliceList](v1, defaultSlice)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateSlice),
		ValidateUpdate:           strategy.ValidateUpdate(validateSliceUpdate),
		SelectableFields:         strategy.Fields(sliceFields),
		FieldNames:               []string{"spec.nodeName", "spec.driver", "spec.pool.name"},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Node", "string", resourcev1.ResourceSliceSpec{}.SwaggerDoc()["nodeName"], func(o *resourcev1.ResourceSlice) any {
				if o.Spec.NodeName == nil {
					return "<unset>"
				}
				return *o.Spec.NodeName
			}),
			strategy.Column("Driver", "string", resourcev1.ResourceSliceSpec{}.SwaggerDoc()["driver"], func(o *resourcev1.ResourceSlice) any { return o.Spec.Driver }),
			strategy.Column("Pool", "string", resourcev1.ResourceSliceSpec{}.SwaggerDoc()["pool"], func(o *resourcev1.ResourceSlice) any { return o.Spec.Pool.Name }),
			strategy.Age(),
		},
	}
}

func sliceFields(s *resourcev1.ResourceSlice) fields.Set {
	node := ""
	if s.Spec.NodeName != nil {
		node = *s.Spec.NodeName
	}
	return fields.Set{"spec.nodeName": node, "spec.driver": s.Spec.Driver, "spec.pool.name": s.Spec.Pool.Name}
}
