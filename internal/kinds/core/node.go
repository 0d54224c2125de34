package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func node() *kinds.Kind {
	split := strategy.Of[corev1.Node]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "nodes"}, Kind: "Node", Singular: "node",
		ShortNames:               []string{"no"},
		StoragePrefix:            "/registry/minions/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Node, corev1.NodeList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"proxy":  {GroupVersionKind: schema.GroupVersionKind{Group: "", Version: "v1", Kind: "NodeProxyOptions"}, Verbs: []string{"create", "delete", "get", "patch", "update"}},
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
