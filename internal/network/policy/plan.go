package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/network"
)

// rule lets packets pass.
type rule struct {
	Any      bool   // whoever is at the other end; else one of Peers
	Peers    []span // merged
	Proto    uint8  // 0: any
	From, To uint16 // destination ports; To 0: any
	Only     []span // when not nil: only to these (ports meant by name)
}

// Program is what the rules do: for each isolated pod of this node, by its
// address and direction, the chain of what is let pass.
type Program struct {
	Egress, Ingress map[netip.Addr]string
	Chains          map[string]chain // by a name that follows from the content
}

type chain struct {
	egress bool
	rules  []rule
}

// world is what a program follows from.
type world struct {
	family     network.Family
	node       string
	policies   []*networkingv1.NetworkPolicy
	pods       []*corev1.Pod
	namespaces map[string]labels.Set
	addr       map[*corev1.Pod]netip.Addr // of the pods that have one of their own
}

// Plan makes the program of a family of addresses on a node. Policies know no
// families: a pod that is selected is meant by all its addresses.
//
// https://kubernetes.io/docs/concepts/services-networking/network-policies/
func Plan(f network.Family, node string, policies []*networkingv1.NetworkPolicy, pods []*corev1.Pod, namespaces []*corev1.Namespace) Program {
	w := &world{family: f, node: node, policies: policies, namespaces: map[string]labels.Set{}, addr: map[*corev1.Pod]netip.Addr{}}
	for _, ns := range namespaces {
		w.namespaces[ns.Name] = ns.Labels
	}
	for _, pod := range pods {
		ip := network.PodIP(pod, f)
		if ip.IsValid() && !pod.Spec.HostNetwork && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			w.addr[pod], w.pods = ip, append(w.pods, pod)
		}
	}
	slices.SortFunc(w.policies, func(a, b *networkingv1.NetworkPolicy) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	p := Program{Egress: map[netip.Addr]string{}, Ingress: map[netip.Addr]string{}, Chains: map[string]chain{}}
	in, out := map[*corev1.Pod][]rule{}, map[*corev1.Pod][]rule{}
	for _, policy := range w.policies {
		w.apply(policy, in, out)
	}
	for pod, rules := range in {
		p.Ingress[w.addr[pod]] = p.chain(false, rules)
	}
	for pod, rules := range out {
		p.Egress[w.addr[pod]] = p.chain(true, rules)
	}
	return p
}

// chain adds a chain; pods with the same rules share one.
func (p *Program) chain(egress bool, rules []rule) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %v", egress, rules))
	name := "pods-" + hex.EncodeToString(sum[:8])
	p.Chains[name] = chain{egress, rules}
	return name
}

// apply adds a policy's rules to the pods of this node that it selects.
func (w *world) apply(policy *networkingv1.NetworkPolicy, in, out map[*corev1.Pod][]rule) {
	var targets []*corev1.Pod
	for _, pod := range w.selected(policy.Namespace, &policy.Spec.PodSelector) {
		if pod.Spec.NodeName == w.node {
			targets = append(targets, pod)
		}
	}
	if len(targets) == 0 {
		return
	}
	ingress, egress := directions(policy)
	if ingress {
		var rules []rule
		for i := range policy.Spec.Ingress {
			r := &policy.Spec.Ingress[i]
			rules = append(rules, w.rules(policy.Namespace, r.From, r.Ports, targets)...)
		}
		for _, pod := range targets {
			in[pod] = append(in[pod], rules...)
		}
	}
	if egress {
		var rules []rule
		for i := range policy.Spec.Egress {
			r := &policy.Spec.Egress[i]
			rules = append(rules, w.rules(policy.Namespace, r.To, r.Ports, nil)...)
		}
		for _, pod := range targets {
			out[pod] = append(out[pod], rules...)
		}
	}
}

func directions(policy *networkingv1.NetworkPolicy) (ingress, egress bool) {
	if len(policy.Spec.PolicyTypes) == 0 {
		return true, len(policy.Spec.Egress) > 0
	}
	return slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress), slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

// selected are the pods of a namespace that a selector selects; an empty one
// selects all.
func (w *world) selected(namespace string, selector *metav1.LabelSelector) (out []*corev1.Pod) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	for _, pod := range w.pods {
		if pod.Namespace == namespace && s.Matches(labels.Set(pod.Labels)) {
			out = append(out, pod)
		}
	}
	return out
}

// rules are those of one entry of a policy: each peer at each port. targets are
// the pods that ports are meant of, for ingress; for egress they are the peers.
func (w *world) rules(namespace string, list []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, targets []*corev1.Pod) (out []rule) {
	base := rule{Any: len(list) == 0}
	named := targets
	for i := range list {
		spans, pods := w.peer(namespace, &list[i])
		base.Peers = append(base.Peers, spans...)
		if targets == nil {
			named = append(named, pods...)
		}
	}
	if targets == nil && base.Any {
		named = w.pods
	}
	base.Peers = merge(base.Peers)
	if !base.Any && len(base.Peers) == 0 {
		return nil // nobody is meant, yet
	}
	if len(ports) == 0 {
		return []rule{base}
	}
	for i := range ports {
		out = append(out, w.port(base, &ports[i], named)...)
	}
	return out
}

// peer is where the other end may be, and the pods among it.
func (w *world) peer(namespace string, p *networkingv1.NetworkPolicyPeer) (spans []span, pods []*corev1.Pod) {
	if p.IPBlock != nil {
		block, err := netip.ParsePrefix(p.IPBlock.CIDR)
		if err != nil || !w.family.Has(block.Addr()) {
			return nil, nil // nobody of this family
		}
		var holes []span
		for _, text := range p.IPBlock.Except {
			if hole, err := netip.ParsePrefix(text); err == nil && w.family.Has(hole.Addr()) {
				holes = append(holes, spanOf(hole))
			}
		}
		return spanOf(block).without(holes), nil
	}
	selector := p.PodSelector
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	if p.NamespaceSelector == nil {
		pods = w.selected(namespace, selector)
	} else if s, err := metav1.LabelSelectorAsSelector(p.NamespaceSelector); err == nil {
		for name, set := range w.namespaces {
			if s.Matches(set) {
				pods = append(pods, w.selected(name, selector)...)
			}
		}
	}
	for _, pod := range pods {
		spans = append(spans, one(w.addr[pod]))
	}
	return spans, pods
}

// port narrows a rule to a port. One that is meant by name has a number for
// each pod that has a port of the name.
func (w *world) port(base rule, p *networkingv1.NetworkPolicyPort, named []*corev1.Pod) []rule {
	protocol := corev1.ProtocolTCP
	if p.Protocol != nil {
		protocol = *p.Protocol
	}
	base.Proto = network.Protocol(protocol)
	switch {
	case p.Port == nil:
		return []rule{base}
	case p.Port.Type == intstr.Int:
		base.From, base.To = uint16(p.Port.IntVal), uint16(p.Port.IntVal)
		if p.EndPort != nil {
			base.To = uint16(*p.EndPort)
		}
		return []rule{base}
	}
	at := map[uint16][]span{}
	for _, pod := range named {
		for i := range pod.Spec.Containers {
			for _, cp := range pod.Spec.Containers[i].Ports {
				if cp.Name == p.Port.StrVal && network.Protocol(cp.Protocol) == base.Proto {
					at[uint16(cp.ContainerPort)] = append(at[uint16(cp.ContainerPort)], one(w.addr[pod]))
				}
			}
		}
	}
	var out []rule
	for n, spans := range at {
		r := base
		r.From, r.To, r.Only = n, n, merge(spans)
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b rule) int { return int(a.From) - int(b.From) })
	return out
}
