package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func ingressClass() *kinds.Kind {
	split := strategy.Counted[networkingv1.IngressClass]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "ingressclasses"}, Kind: "IngressClass", Singular: "ingressclass",
		StoragePrefix:            "/registry/ingressclasses/",
		Versions:                 []kinds.Version{strategy.Version[networkingv1.IngressClass, networkingv1.IngressClassList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Columns:                  strategy.NameAge(),
	}
}
