package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func volumeAttributesClass() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "volumeattributesclasses"}, Kind: "VolumeAttributesClass", Singular: "volumeattributesclass",
		ShortNames:               []string{"vac"},
		StoragePrefix:            "/registry/volumeattributesclasses/",
		Versions:                 []kinds.Version{strategy.Version[storagev1.VolumeAttributesClass, storagev1.VolumeAttributesClassList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Validate:                 strategy.Validate(validateAttributesClass),
		ValidateUpdate: strategy.ValidateUpdate(func(a, old *storagev1.VolumeAttributesClass) field.ErrorList {
			var c check.Errors
			if a.DriverName != old.DriverName {
				c.Forbidden(field.NewPath("driverName"), "", "updates to driverName are forbidden.")
			}
			if !apiequality.Semantic.DeepEqual(a.Parameters, old.Parameters) {
				c.Forbidden(field.NewPath("parameters"), "", "updates to parameters are forbidden.")
			}
			return c.List
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("DriverName", "string", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"], func(o *storagev1.VolumeAttributesClass) any { return o.DriverName }),
			strategy.Age(),
		},
	}
}

func validateAttributesClass(a *storagev1.VolumeAttributesClass) field.ErrorList {
	var c check.Errors
	validateProvisioner(&c, field.NewPath("driverName"), a.DriverName)
	validateParameters(&c, a.Parameters, false)
	return c.List
}
