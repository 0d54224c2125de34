package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		Versions:                 []kinds.Version{strategy.Version[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](v1, defaultNetworkPolicy)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Pod-Selector", "string", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"], func(o *networkingv1.NetworkPolicy) any { return metav1.FormatLabelSelector(&o.Spec.PodSelector) }),
			strategy.Age(),
		},
	}
}

func defaultNetworkPolicy(p *networkingv1.NetworkPolicy) {
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) != 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	for i := range p.Spec.Ingress {
		defaultPolicyPorts(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		defaultPolicyPorts(p.Spec.Egress[i].Ports)
	}
}

func defaultPolicyPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		if ports[i].Protocol == nil {
			ports[i].Protocol = new(corev1.ProtocolTCP)
		}
	}
}
