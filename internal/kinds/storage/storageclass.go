package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func storageClass() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "storageclasses"}, Kind: "StorageClass", Singular: "storageclass",
		ShortNames:               []string{"sc"},
		StoragePrefix:            "/registry/storageclasses/",
		Versions:                 []kinds.Version{strategy.Version[storagev1.StorageClass, storagev1.StorageClassList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns:                  strategy.NameAge(),
	}
}
