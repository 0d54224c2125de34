package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func csiDriver() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "csidrivers"}, Kind: "CSIDriver", Singular: "csidriver",
		StoragePrefix: "/registry/csidrivers/",
		Versions:      []kinds.Version{strategy.Version[storagev1.CSIDriver, storagev1.CSIDriverList](v1, nil)},
		Columns:       strategy.NameAge(),
	}
}
