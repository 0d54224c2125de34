package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func csiStorageCapacity() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "csistoragecapacities"}, Kind: "CSIStorageCapacity", Singular: "csistoragecapacity",
		Namespaced:    true,
		StoragePrefix: "/registry/csistoragecapacities/",
		Versions:      []kinds.Version{strategy.Version[storagev1.CSIStorageCapacity, storagev1.CSIStorageCapacityList](v1, nil)},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("StorageClassName", "string", storagev1.CSIStorageCapacity{}.SwaggerDoc()["storageClassName"], func(o *storagev1.CSIStorageCapacity) any { return o.StorageClassName }),
			strategy.Column("Capacity", "string", storagev1.CSIStorageCapacity{}.SwaggerDoc()["capacity"], func(o *storagev1.CSIStorageCapacity) any {
				if o.Capacity == nil {
					return "<unset>"
				}
				return o.Capacity.String()
			}),
		},
	}
}
