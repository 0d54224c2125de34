package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func replicaSet() *kinds.Kind {
	split := strategy.Counted[appsv1.ReplicaSet]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "replicasets"}, Kind: "ReplicaSet", Singular: "replicaset",
		ShortNames: []string{"rs"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/replicasets/",
		Versions:                 []kinds.Version{strategy.Version[appsv1.ReplicaSet, appsv1.ReplicaSetList](v1, nil)},
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
