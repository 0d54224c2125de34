package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func networkPolicy() *kinds.Kind {
	split := strategy.Counted[networkingv1.NetworkPolicy]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "networkpolicies"}, Kind: "NetworkPolicy", Singular: "networkpolicy",
		ShortNames: []string{"netpol"}, Namespaced: true,
		StoragePrefix:            "/registry/networkpolicies/",
		Versions:                 []kinds.Version{strategy.Version[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Columns:                  strategy.NameAge(),
	}
}
