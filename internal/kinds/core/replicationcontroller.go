package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func replicationController() *kinds.Kind {
	split := strategy.Counted[corev1.ReplicationController]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "replicationcontrollers"}, Kind: "ReplicationController", Singular: "replicationcontroller",
		ShortNames: []string{"rc"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/controllers/",
		Versions:                 []kinds.Version{strategy.Version[corev1.ReplicationController, corev1.ReplicationControllerList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"scale":  {GroupVersionKind: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, Verbs: []string{"get", "patch", "update"}},
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
