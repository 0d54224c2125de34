package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func deviceTaintRule() *kinds.Kind {
	split := strategy.Counted[resourcev1.DeviceTaintRule]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "devicetaintrules"}, Kind: "DeviceTaintRule", Singular: "devicetaintrule",
		StoragePrefix:            "/registry/devicetaintrules/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.DeviceTaintRule, resourcev1.DeviceTaintRuleList](v1, func(r *resourcev1.DeviceTaintRule) { defaultTaint(&r.Spec.Taint) })},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateTaintRule),
		ValidateUpdate:           strategy.ValidateUpdate(func(r, _ *resourcev1.DeviceTaintRule) field.ErrorList { return validateTaintRule(r) }),
		Subresources: map[string]*kinds.Subresource{
			"status": {
				Verbs: strategy.View(), PrepareUpdate: split.PrepareStatusOnly,
				ValidateUpdate: strategy.ValidateUpdate(func(r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
					return metavalidation.ValidateConditions(r.Status.Conditions, field.NewPath("status", "conditions"))
				}),
			},
		},
		Columns: strategy.NameAge(),
	}
}

func validateTaintRule(r *resourcev1.DeviceTaintRule) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	if s := r.Spec.DeviceSelector; s != nil {
		p := path.Child("deviceSelector")
		if s.Driver != nil {
			validateDriverName(&c, *s.Driver, p, "driver")
		}
		if s.Pool != nil {
			validatePoolName(&c, *s.Pool, p, "pool")
		}
		if s.Device != nil {
			c.Name(p, "device", *s.Device)
		}
	}
	validateTaint(&c, &r.Spec.Taint, path.Child("taint"))
	return c.List
}
