package networking

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func ingress() *kinds.Kind {
	split := strategy.Counted[networkingv1.Ingress]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "ingresses"}, Kind: "Ingress", Singular: "ingress",
		ShortNames: []string{"ing"}, Namespaced: true,
		StoragePrefix:            "/registry/ingress/",
		Versions:                 []kinds.Version{strategy.Version[networkingv1.Ingress, networkingv1.IngressList](v1, defaultIngress)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateIngress),
		ValidateUpdate:           strategy.ValidateUpdate(func(in, _ *networkingv1.Ingress) field.ErrorList { return validateIngressSpec(&in.Spec) }),
		Warnings:                 strategy.Warnings(ingressWarnings),
		Subresources: map[string]*kinds.Subresource{
			"status": {Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateIngressStatus)},
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Class", "string", "The name of the IngressClass resource that should be used for additional configuration", func(o *networkingv1.Ingress) any {
				if o.Spec.IngressClassName == nil {
					return "<none>"
				}
				return *o.Spec.IngressClassName
			}),
			strategy.Column("Hosts", "string", "Hosts that incoming requests are matched against before the ingress rule", func(o *networkingv1.Ingress) any { return hosts(o.Spec.Rules) }),
			strategy.Column("Address", "string", "Address is a list containing ingress points for the load-balancer", func(o *networkingv1.Ingress) any { return addresses(o.Status.LoadBalancer.Ingress) }),
			strategy.Column("Ports", "string", "Ports of TLS configurations that open", func(o *networkingv1.Ingress) any {
				if len(o.Spec.TLS) > 0 {
					return "80, 443"
				}
				return "80"
			}),
			strategy.Age(),
		},
	}
}

func defaultIngress(in *networkingv1.Ingress) {
	for i := range in.Spec.Rules {
		http := in.Spec.Rules[i].HTTP
		if http == nil {
			continue
		}
		for j := range http.Paths {
			if http.Paths[j].PathType == nil {
				http.Paths[j].PathType = new(networkingv1.PathTypeImplementationSpecific)
			}
		}
	}
}

// shownHosts is how many hosts fit into a cell.
const shownHosts = 3

func hosts(rules []networkingv1.IngressRule) string {
	var list []string
	for _, r := range rules {
		if r.Host != "" {
			list = append(list, r.Host)
		}
	}
	switch {
	case len(list) == 0:
		return "*"
	case len(list) > shownHosts:
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:shownHosts], ","), len(list)-shownHosts)
	}
	return strings.Join(list, ",")
}

func addresses(points []networkingv1.IngressLoadBalancerIngress) string {
	var list []string
	for _, p := range points {
		if p.IP != "" {
			list = append(list, p.IP)
		} else if p.Hostname != "" {
			list = append(list, p.Hostname)
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ",")
}
