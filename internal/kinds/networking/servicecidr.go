package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func serviceCIDR() *kinds.Kind {
	split := strategy.Of[networkingv1.ServiceCIDR]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "servicecidrs"}, Kind: "ServiceCIDR", Singular: "servicecidr",
		StoragePrefix:            "/registry/servicecidrs/",
		Versions:                 []kinds.Version{strategy.Version[networkingv1.ServiceCIDR, networkingv1.ServiceCIDRList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("CIDRs", "string", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"], func(o *networkingv1.ServiceCIDR) any { return strings.Join(o.Spec.CIDRs, ",") }),
			strategy.Age(),
		},
	}
}
