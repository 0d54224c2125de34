package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func deviceClass() *kinds.Kind {
	split := strategy.Counted[resourcev1.DeviceClass]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "deviceclasses"}, Kind: "DeviceClass", Singular: "deviceclass",
		StoragePrefix:            "/registry/deviceclasses/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.DeviceClass, resourcev1.DeviceClassList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(func(d *resourcev1.DeviceClass) field.ErrorList { return validateDeviceClass(d, never) }),
		ValidateUpdate: strategy.ValidateUpdate(func(d, old *resourcev1.DeviceClass) field.ErrorList {
			return validateDeviceClass(d, expressionsOf(old.Spec.Selectors))
		}),
		Columns: strategy.NameAge(),
	}
}

func validateDeviceClass(d *resourcev1.DeviceClass, was stored) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	validateSelectors(&c, d.Spec.Selectors, was, path)
	atMost(&c, path, "config", len(d.Spec.Config), resourcev1.DeviceConfigMaxSize)
	for i := range d.Spec.Config {
		validateConfiguration(&c, &d.Spec.Config[i].DeviceConfiguration, path.Child("config").Index(i))
	}
	return c.List
}
