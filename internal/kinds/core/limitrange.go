package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func limitRange() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "limitranges"}, Kind: "LimitRange", Singular: "limitrange",
		ShortNames: []string{"limits"}, Namespaced: true,
		StoragePrefix:            "/registry/limitranges/",
		Versions:                 []kinds.Version{strategy.Version[corev1.LimitRange, corev1.LimitRangeList](v1, nil)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		Columns:                  strategy.NameAge(),
	}
}
