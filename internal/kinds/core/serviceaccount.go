package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func serviceAccount() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "serviceaccounts"}, Kind: "ServiceAccount", Singular: "serviceaccount",
		ShortNames: []string{"sa"}, Namespaced: true,
		StoragePrefix:            "/registry/serviceaccounts/",
		Versions:                 []kinds.Version{strategy.Version[corev1.ServiceAccount, corev1.ServiceAccountList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Subresources: map[string]*kinds.Subresource{
			"token": {GroupVersionKind: schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}, Verbs: []string{"create"}},
		},
		Columns: strategy.NameAge(),
	}
}
