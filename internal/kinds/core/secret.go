package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func secret() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "secrets"}, Kind: "Secret", Singular: "secret",
		Namespaced:               true,
		StoragePrefix:            "/registry/secrets/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Secret, corev1.SecretList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns:                  strategy.NameAge(),
	}
}
