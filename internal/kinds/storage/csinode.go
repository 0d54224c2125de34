package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func csiNode() *kinds.Kind {
	split := strategy.Of[storagev1.CSINode]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "csinodes"}, Kind: "CSINode", Singular: "csinode",
		StoragePrefix: "/registry/csinodes/",
		Versions:      []kinds.Version{strategy.Version[storagev1.CSINode, storagev1.CSINodeList](v1, nil)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Drivers", "integer", storagev1.CSINodeSpec{}.SwaggerDoc()["drivers"], func(o *storagev1.CSINode) any { return int64(len(o.Spec.Drivers)) }),
			strategy.Age(),
		},
	}
}
