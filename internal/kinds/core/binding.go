package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func binding() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "bindings"}, Kind: "Binding", Singular: "binding",
		Namespaced: true,
		Versions:   []kinds.Version{strategy.Unlisted[corev1.Binding](v1, nil)},
		NoVerbs:    strategy.OnlyCreate(),
	}
}
