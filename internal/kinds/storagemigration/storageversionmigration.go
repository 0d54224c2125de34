package storagemigration

import (
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
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
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: strategy.NameAge(),
	}
}
