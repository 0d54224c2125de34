package node

import (
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func runtimeClass() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "runtimeclasses"}, Kind: "RuntimeClass", Singular: "runtimeclass",
		StoragePrefix: "/registry/runtimeclasses/",
		Versions:      []kinds.Version{strategy.Version[nodev1.RuntimeClass, nodev1.RuntimeClassList](v1, nil)},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Handler", "string", nodev1.RuntimeClass{}.SwaggerDoc()["handler"], func(o *nodev1.RuntimeClass) any { return o.Handler }),
			strategy.Age(),
		},
	}
}
