package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func resourceQuota() *kinds.Kind {
	split := strategy.Of[corev1.ResourceQuota]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "resourcequotas"}, Kind: "ResourceQuota", Singular: "resourcequota",
		ShortNames: []string{"quota"}, Namespaced: true,
		StoragePrefix:            "/registry/resourcequotas/",
		Versions:                 []kinds.Version{strategy.Version[corev1.ResourceQuota, corev1.ResourceQuotaList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
