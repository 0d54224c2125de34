package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func persistentVolume() *kinds.Kind {
	split := strategy.Of[corev1.PersistentVolume]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "persistentvolumes"}, Kind: "PersistentVolume", Singular: "persistentvolume",
		ShortNames:               []string{"pv"},
		StoragePrefix:            "/registry/persistentvolumes/",
		Versions:                 []kinds.Version{strategy.Version[corev1.PersistentVolume, corev1.PersistentVolumeList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
