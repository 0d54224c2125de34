package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func csiStorageCapacity() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "csistoragecapacities"}, Kind: "CSIStorageCapacity", Singular: "csistoragecapacity",
		Namespaced:    true,
		StoragePrefix: "/registry/csistoragecapacities/",
		Versions:      []kinds.Version{strategy.Version[storagev1.CSIStorageCapacity, storagev1.CSIStorageCapacityList](v1, nil)},
		Validate:      strategy.Validate(validateCapacity),
		ValidateUpdate: strategy.ValidateUpdate(func(s, old *storagev1.CSIStorageCapacity) field.ErrorList {
			c := check.Errors{List: validateCapacity(s)}
			if !apiequality.Semantic.DeepEqual(s.NodeTopology, old.NodeTopology) {
				c.Immutable(field.NewPath("nodeTopology"), "", s.NodeTopology)
			}
			if s.StorageClassName != old.StorageClassName {
				c.Immutable(field.NewPath("storageClassName"), "", s.StorageClassName)
			}
			return c.List
		}),
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

func validateCapacity(s *storagev1.CSIStorageCapacity) field.ErrorList {
	var c check.Errors
	c.Selector(field.NewPath("nodeTopology"), "", s.NodeTopology)
	c.Subdomain(field.NewPath("storageClassName"), "", s.StorageClassName)
	for _, q := range [...]struct {
		name  string
		value *resource.Quantity
	}{{"capacity", s.Capacity}, {"maximumVolumeSize", s.MaximumVolumeSize}} {
		if q.value != nil && q.value.Sign() < 0 {
			c.Invalid(field.NewPath(q.name), "", q.value.String(), apivalidation.IsNegativeErrorMsg)
		}
	}
	return c.List
}
