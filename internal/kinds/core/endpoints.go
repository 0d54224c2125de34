package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func endpoints() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "endpoints"}, Kind: "Endpoints", Singular: "endpoints",
		ShortNames: []string{"ep"}, Namespaced: true,
		StoragePrefix:            "/registry/services/endpoints/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Endpoints, corev1.EndpointsList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns:                  strategy.NameAge(),
	}
}
