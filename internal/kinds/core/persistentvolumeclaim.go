package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func persistentVolumeClaim() *kinds.Kind {
	split := strategy.Of[corev1.PersistentVolumeClaim]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "persistentvolumeclaims"}, Kind: "PersistentVolumeClaim", Singular: "persistentvolumeclaim",
		ShortNames: []string{"pvc"}, Namespaced: true,
		StoragePrefix:            "/registry/persistentvolumeclaims/",
		Versions:                 []kinds.Version{strategy.Version[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
