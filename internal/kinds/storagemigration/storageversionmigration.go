package storagemigration

import (
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func storageVersionMigration() *kinds.Kind {
	split := strategy.Of[storagemigrationv1.StorageVersionMigration]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "storageversionmigrations"}, Kind: "StorageVersionMigration", Singular: "storageversionmigration",
		StoragePrefix:            "/registry/storageversionmigrations/",
		Versions:                 []kinds.Version{strategy.Version[storagemigrationv1.StorageVersionMigration, storagemigrationv1.StorageVersionMigrationList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate: strategy.Validate(func(m *storagemigrationv1.StorageVersionMigration) field.ErrorList {
			var c check.Errors
			path := field.NewPath("spec", "resource")
			if m.Spec.Resource.Group != "" {
				c.Subdomain(path, "group", m.Spec.Resource.Group)
			}
			c.NamedSegment(path, "resource", m.Spec.Resource.Resource, "resource is required")
			return c.List
		}),
		ValidateUpdate: strategy.ValidateUpdate(func(m, old *storagemigrationv1.StorageVersionMigration) field.ErrorList {
			var c check.Errors
			if m.Spec != old.Spec {
				c.Immutable(field.NewPath("spec"), "", m.Spec)
			}
			return c.List
		}),
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: strategy.NameAge(),
	}
}
