package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func ipAddress() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "ipaddresses"}, Kind: "IPAddress", Singular: "ipaddress",
		ShortNames:               []string{"ip"},
		StoragePrefix:            "/registry/ipaddresses/",
		Versions:                 []kinds.Version{strategy.Version[networkingv1.IPAddress, networkingv1.IPAddressList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("ParentRef", "string", "Reference to the parent object that owns this IPAddress", func(o *networkingv1.IPAddress) any { return parent(o.Spec.ParentRef) }),
		},
	}
}

func parent(ref *networkingv1.ParentReference) string {
	if ref == nil {
		return "<none>"
	}
	text := ref.Resource
	if ref.Group != "" {
		text += "." + ref.Group
	}
	if ref.Namespace != "" {
		return text + "/" + ref.Namespace + "/" + ref.Name
	}
	return text + "/" + ref.Name
}
