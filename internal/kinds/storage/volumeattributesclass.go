package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func volumeAttributesClass() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "volumeattributesclasses"}, Kind: "VolumeAttributesClass", Singular: "volumeattributesclass",
		ShortNames:               []string{"vac"},
		StoragePrefix:            "/registry/volumeattributesclasses/",
		Versions:                 []kinds.Version{strategy.Version[storagev1.VolumeAttributesClass, storagev1.VolumeAttributesClassList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("DriverName", "string", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"], func(o *storagev1.VolumeAttributesClass) any { return o.DriverName }),
			strategy.Age(),
		},
	}
}
