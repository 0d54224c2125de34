package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func statefulSet() *kinds.Kind {
	split := strategy.Counted[appsv1.StatefulSet]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "statefulsets"}, Kind: "StatefulSet", Singular: "statefulset",
		ShortNames: []string{"sts"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/statefulsets/",
		Versions:                 []kinds.Version{strategy.Version[appsv1.StatefulSet, appsv1.StatefulSetList](v1, nil)},
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
