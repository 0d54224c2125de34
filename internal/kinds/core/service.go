package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func service() *kinds.Kind {
	split := strategy.Of[corev1.Service]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "services"}, Kind: "Service", Singular: "service",
		ShortNames: []string{"svc"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/services/specs/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Service, corev1.ServiceList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"proxy":  {GroupVersionKind: schema.GroupVersionKind{Group: "", Version: "v1", Kind: "ServiceProxyOptions"}, Verbs: []string{"create", "delete", "get", "patch", "update"}},
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
