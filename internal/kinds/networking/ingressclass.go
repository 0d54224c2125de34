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
		Versions:                 []kinds.Version{strategy.Version[networkingv1.IngressClass, networkingv1.IngressClassList](v1, defaultIngressClass)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Controller", "string", "Controller that is responsible for handling this class", func(o *networkingv1.IngressClass) any { return o.Spec.Controller }),
			strategy.Column("Parameters", "string", "A reference to a resource with additional parameters", func(o *networkingv1.IngressClass) any { return parameters(o.Spec.Parameters) }),
			strategy.Age(),
		},
	}
}

func defaultIngressClass(c *networkingv1.IngressClass) {
	if p := c.Spec.Parameters; p != nil && p.Scope == nil {
		p.Scope = new(networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func parameters(ref *networkingv1.IngressClassParametersReference) string {
	if ref == nil {
		return "<none>"
	}
	kind := ref.Kind
	if ref.APIGroup != nil && *ref.APIGroup != "" {
		kind += "." + *ref.APIGroup
	}
	return kind + "/" + ref.Name
}
