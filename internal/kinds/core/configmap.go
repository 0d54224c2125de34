package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func configMap() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "configmaps"}, Kind: "ConfigMap", Singular: "configmap",
		ShortNames: []string{"cm"}, Namespaced: true,
		StoragePrefix:            "/registry/configmaps/",
		Versions:                 []kinds.Version{strategy.Version[corev1.ConfigMap, corev1.ConfigMapList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns:                  strategy.NameAge(),
	}
}
