package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func podTemplate() *kinds.Kind {
	split := strategy.Counted[corev1.PodTemplate]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "podtemplates"}, Kind: "PodTemplate", Singular: "podtemplate",
		Namespaced:               true,
		StoragePrefix:            "/registry/podtemplates/",
		Versions:                 []kinds.Version{strategy.Version[corev1.PodTemplate, corev1.PodTemplateList](v1, nil)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Columns:                  strategy.NameAge(),
	}
}
