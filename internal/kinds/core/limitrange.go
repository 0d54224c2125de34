package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func limitRange() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "limitranges"}, Kind: "LimitRange", Singular: "limitrange",
		ShortNames: []string{"limits"}, Namespaced: true,
		StoragePrefix:            "/registry/limitranges/",
		Versions:                 []kinds.Version{strategy.Version[corev1.LimitRange, corev1.LimitRangeList](v1, defaultLimitRange)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		Validate:                 strategy.Validate(validateLimitRange),
		ValidateUpdate:           strategy.ValidateUpdate(func(r, _ *corev1.LimitRange) field.ErrorList { return validateLimitRange(r) }),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.CreatedAt(),
		},
	}
}

// defaultLimitRange: a limit that is not named is the most there may be, and a
// request the limit or the least.
func defaultLimitRange(r *corev1.LimitRange) {
	all := func(corev1.ResourceName) bool { return true }
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		if item.Type == corev1.LimitTypeContainer {
			if item.Default == nil {
				item.Default = corev1.ResourceList{}
			}
			if item.DefaultRequest == nil {
				item.DefaultRequest = corev1.ResourceList{}
			}
			addMissing(item.Default, item.Max, all)
			addMissing(item.DefaultRequest, item.Default, all)
			addMissing(item.DefaultRequest, item.Min, all)
		}
		for _, list := range [...]corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			roundUp(list)
		}
	}
}
