package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func pod() *kinds.Kind {
	split := strategy.Counted[corev1.Pod]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "pods"}, Kind: "Pod", Singular: "pod",
		ShortNames: []string{"po"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/pods/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Pod, corev1.PodList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"attach":              {GroupVersionKind: schema.GroupVersionKind{Group: "", Version: "v1", Kind: "PodAttachOptions"}, Verbs: []string{"create", "get"}},
			"binding":             {GroupVersionKind: schema.GroupVersionKind{Group: "", Version: "v1", Kind: "Binding"}, Verbs: []string{"create"}},
			"ephemeralcontainers": {Verbs: []string{"get", "patch", "update"}},
			"eviction":            {GroupVersionKind: schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, Verbs: []string{"create"}},
			"exec":                {GroupVersionKind: schema.GroupVersionKind{Group: "", Version: "v1", Kind: "PodExecOptions"}, Verbs: []string{"create", "get"}},
			"log":                 {Verbs: []string{"get"}},
			"portforward":         {GroupVersionKind: schema.GroupVersionKind{Group: "", Version: "v1", Kind: "PodPortForwardOptions"}, Verbs: []string{"create", "get"}},
			"proxy":               {GroupVersionKind: schema.GroupVersionKind{Group: "", Version: "v1", Kind: "PodProxyOptions"}, Verbs: []string{"create", "delete", "get", "patch", "update"}},
			"resize":              {Verbs: []string{"get", "patch", "update"}},
			"status":              split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
