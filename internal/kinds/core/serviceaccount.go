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
		// The field names secrets to people; nothing but names belongs there.
		PrepareCreate: strategy.PrepareCreate(func(sa *corev1.ServiceAccount) { onlyNames(sa) }),
		PrepareUpdate: strategy.PrepareUpdate(func(sa, _ *corev1.ServiceAccount) { onlyNames(sa) }),
		Subresources: map[string]*kinds.Subresource{
			"token": {GroupVersionKind: schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}, Verbs: []string{"create"}},
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Secrets", "string", corev1.ServiceAccount{}.SwaggerDoc()["secrets"], func(sa *corev1.ServiceAccount) any { return int64(len(sa.Secrets)) }),
			strategy.Age(),
		},
	}
}

func onlyNames(sa *corev1.ServiceAccount) {
	for i := range sa.Secrets {
		sa.Secrets[i] = corev1.ObjectReference{Name: sa.Secrets[i].Name}
	}
}
