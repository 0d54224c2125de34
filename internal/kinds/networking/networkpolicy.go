package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
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
		Validate:                 strategy.Validate(validateNetworkPolicy),
		ValidateUpdate:           strategy.ValidateUpdate(validateNetworkPolicySince),
		Warnings:                 strategy.Warnings(networkPolicyWarnings),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Pod-Selector", "string", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"], func(o *networkingv1.NetworkPolicy) any { return metav1.FormatLabelSelector(&o.Spec.PodSelector) }),
			strategy.Age(),
		},
	}
}

func networkPolicyWarnings(p, _ *networkingv1.NetworkPolicy) []string {
	var out []string
	look := func(peers []networkingv1.NetworkPolicyPeer, path *field.Path) {
		for i := range peers {
			block, path := peers[i].IPBlock, path.Index(i).Child("ipBlock")
			if block == nil {
				continue
			}
			out = append(out, core.RangeWarnings(path.Child("cidr"), block.CIDR)...)
			for j, cidr := range block.Except {
				out = append(out, core.RangeWarnings(path.Child("except").Index(j), cidr)...)
			}
		}
	}
	for i := range p.Spec.Ingress {
		look(p.Spec.Ingress[i].From, field.NewPath("spec", "ingress").Index(i).Child("from"))
	}
	for i := range p.Spec.Egress {
		look(p.Spec.Egress[i].To, field.NewPath("spec", "egress").Index(i).Child("to"))
	}
	return out
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

func validateNetworkPolicy(n *networkingv1.NetworkPolicy) field.ErrorList {
	return validateNetworkPolicySince(n, &networkingv1.NetworkPolicy{})
}

// validateNetworkPolicySince lets ranges stay that were there before they had to
// be written in one way only.
func validateNetworkPolicySince(n, old *networkingv1.NetworkPolicy) field.ErrorList {
	var c check.Errors
	before := rangesOf(old)
	path := field.NewPath("spec")
	c.Selector(path, "podSelector", &n.Spec.PodSelector)
	for i := range n.Spec.Ingress {
		validateTraffic(&c, n.Spec.Ingress[i].Ports, n.Spec.Ingress[i].From, before, path.Child("ingress").Index(i), "from")
	}
	for i := range n.Spec.Egress {
		validateTraffic(&c, n.Spec.Egress[i].Ports, n.Spec.Egress[i].To, before, path.Child("egress").Index(i), "to")
	}
	if len(n.Spec.PolicyTypes) > 2 {
		c.Invalid(path, "policyTypes", n.Spec.PolicyTypes, "may not specify more than two policyTypes")
		return c.List
	}
	for i, t := range n.Spec.PolicyTypes {
		check.Among(&c, path.Child("policyTypes").Index(i), "", t, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	}
	return c.List
}

func rangesOf(n *networkingv1.NetworkPolicy) (ranges []string) {
	var peers []networkingv1.NetworkPolicyPeer
	for i := range n.Spec.Ingress {
		peers = append(peers, n.Spec.Ingress[i].From...)
	}
	for i := range n.Spec.Egress {
		peers = append(peers, n.Spec.Egress[i].To...)
	}
	for i := range peers {
		if b := peers[i].IPBlock; b != nil {
			ranges = append(append(ranges, b.CIDR), b.Except...)
		}
	}
	return ranges
}

func validateTraffic(c *check.Errors, ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, before []string, path *field.Path, to string) {
	for i := range ports {
		validatePolicyPort(c, &ports[i], path.Child("ports").Index(i))
	}
	for i := range peers {
		validatePeer(c, &peers[i], before, path.Child(to).Index(i))
	}
}

func validatePolicyPort(c *check.Errors, port *networkingv1.NetworkPolicyPort, path *field.Path) {
	if p := port.Protocol; p != nil {
		check.Among(c, path, "protocol", *p, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	}
	switch end := port.EndPort; {
	case port.Port == nil:
		if end != nil {
			c.Invalid(path, "endPort", *end, "may not be specified when `port` is not specified")
		}
	case port.Port.Type == intstr.Int:
		c.Port(path, "port", port.Port.IntVal)
		if end != nil {
			if *end < port.Port.IntVal {
				c.Invalid(path, "endPort", *end, "must be greater than or equal to `port`")
			}
			c.Port(path, "endPort", *end)
		}
	default:
		if end != nil {
			c.Invalid(path, "endPort", *end, "may not be specified when `port` is non-numeric")
		}
		c.Text(path, "port", port.Port.StrVal, validation.IsValidPortName(port.Port.StrVal))
	}
}

func validatePeer(c *check.Errors, p *networkingv1.NetworkPolicyPeer, before []string, path *field.Path) {
	c.Selector(path, "podSelector", p.PodSelector)
	c.Selector(path, "namespaceSelector", p.NamespaceSelector)
	if p.IPBlock != nil {
		validateIPBlock(c, p.IPBlock, before, path.Child("ipBlock"))
	}
	selects := p.PodSelector != nil || p.NamespaceSelector != nil
	switch {
	case !selects && p.IPBlock == nil:
		c.Required(path, "", "must specify a peer")
	case selects && p.IPBlock != nil:
		c.Forbidden(path, "", "may not specify both ipBlock and another peer")
	}
}

func validateIPBlock(c *check.Errors, b *networkingv1.IPBlock, before []string, path *field.Path) {
	if b.CIDR == "" {
		c.Required(path, "cidr", "")
		return
	}
	c.Add(validation.IsValidCIDRForLegacyField(path.Child("cidr"), b.CIDR, true, before))
	_, whole, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return
	}
	for i, except := range b.Except {
		p := path.Child("except").Index(i)
		if bad := validation.IsValidCIDRForLegacyField(p, except, true, before); len(bad) > 0 {
			c.Add(bad)
			continue
		}
		_, part, err := netutils.ParseCIDRSloppy(except)
		if err != nil {
			continue
		}
		bits, _ := whole.Mask.Size()
		if partBits, _ := part.Mask.Size(); !whole.Contains(part.IP) || bits >= partBits {
			c.Invalid(p, "", except, "must be a strict subset of `cidr`")
		}
	}
}
