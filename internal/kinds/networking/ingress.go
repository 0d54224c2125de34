package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func ingress() *kinds.Kind {
	split := strategy.Counted[networkingv1.Ingress]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "ingresses"}, Kind: "Ingress", Singular: "ingress",
		ShortNames: []string{"ing"}, Namespaced: true,
		StoragePrefix:            "/registry/ingress/",
		Versions:                 []kinds.Version{strategy.Version[networkingv1.Ingress, networkingv1.IngressList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
