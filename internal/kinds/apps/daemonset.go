package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func daemonSet() *kinds.Kind {
	split := strategy.Counted[appsv1.DaemonSet]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "daemonsets"}, Kind: "DaemonSet", Singular: "daemonset",
		ShortNames: []string{"ds"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/daemonsets/",
		Versions:                 []kinds.Version{strategy.Version[appsv1.DaemonSet, appsv1.DaemonSetList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
