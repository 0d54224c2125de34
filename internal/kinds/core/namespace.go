package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func namespace() *kinds.Kind {
	split := strategy.Of[corev1.Namespace]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "namespaces"}, Kind: "Namespace", Singular: "namespace",
		ShortNames:               []string{"ns"},
		StoragePrefix:            "/registry/namespaces/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Namespace, corev1.NamespaceList](v1, nil)},
		NoVerbs:                  []string{"deletecollection"},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"finalize": {Verbs: []string{"update"}},
			"status":   split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
