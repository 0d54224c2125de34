package loadbalancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/controllers"
)

const (
	// Class is ours. Services that name another are somebody else's; those that
	// name none are ours too.
	Class = "setpoint.dev/load-balancer"
	// finalizer keeps a service until its address is given back.
	finalizer = "service.kubernetes.io/load-balancer-cleanup"
)

// ours tells whether a service is to have an address of ours.
func ours(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.DeletionTimestamp == nil &&
		(svc.Spec.LoadBalancerClass == nil || *svc.Spec.LoadBalancerClass == Class)
}

// world is what a service's addresses follow from.
type world struct {
	service *corev1.Service
	pool    Pool
	nodes   []*corev1.Node
	// hasEndpoint tells of a node whether it has a ready endpoint of the service.
	hasEndpoint func(node string) bool
	// at lists the other services of ours at an address, but for those that have
	// it though this one precedes them.
	at func(netip.Addr) []*corev1.Service
	// rivals lists the services of ours that precede this one and use a number as
	// a port too.
	rivals func(port int32) []*corev1.Service
	// server is where the API server is reached by pods.
	server []netip.AddrPort
}

// problem is why a service has no address.
type problem struct{ on, reason string }

// addressesOf are those that the service ought to have: of each of its families,
// the primary first. A service that has those of one family only waits for the
// other when it requires both.
func addressesOf(w world) (out []netip.Addr, p *problem) {
	for _, f := range familiesOf(w.service) {
		find := poolAddress
		if w.pool.Nodes() {
			find = nodeAddresses
		}
		list, missing := find(w, f)
		out = append(out, list...)
		if p == nil {
			p = missing
		}
	}
	if policy := w.service.Spec.IPFamilyPolicy; len(out) > 0 && (policy == nil || *policy != corev1.IPFamilyPolicyRequireDualStack) {
		return out, nil
	}
	return out, p
}

func familiesOf(svc *corev1.Service) []corev1.IPFamily {
	if len(svc.Spec.IPFamilies) == 0 {
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return svc.Spec.IPFamilies
}

// nodeAddresses are those of the nodes that are ready: each node's rules lead
// the service's ports at every one of them to the endpoints. Where traffic
// stays on the node, nodes without endpoints are left out.
func nodeAddresses(w world, f corev1.IPFamily) (out []netip.Addr, p *problem) {
	local := w.service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	p = &problem{"any Node", fmt.Sprintf("none that has an address of %s is ready", f)}
	for _, node := range w.nodes {
		addr := addressOf(node, f)
		if !addr.IsValid() || !nodeReady(node) {
			continue
		}
		if _, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]; excluded {
			continue
		}
		if local && !w.hasEndpoint(node.Name) {
			p = &problem{"endpoints of the service", "no node has one that is ready, and its traffic is to stay on a node"}
			continue
		}
		if c := conflict(w, addr); c != nil {
			return nil, c
		}
		out = append(out, addr)
	}
	if len(out) == 0 {
		return nil, p
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// addressOf is where a node is reached from outside by a family, as far as it says
// so.
func addressOf(node *corev1.Node, f corev1.IPFamily) (addr netip.Addr) {
	for _, t := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, a := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); a.Type == t && err == nil && controllers.FamilyOf(ip) == f {
				return ip
			}
		}
	}
	return addr
}

func nodeReady(node *corev1.Node) bool {
	return node.DeletionTimestamp == nil && controllers.NodeReady(node)
}

// conflict tells who has one of the service's ports at an address.
func conflict(w world, addr netip.Addr) *problem {
	for i := range w.service.Spec.Ports {
		port := &w.service.Spec.Ports[i]
		protocol := cmp.Or(port.Protocol, corev1.ProtocolTCP)
		if protocol == corev1.ProtocolTCP && slices.Contains(w.server, netip.AddrPortFrom(addr, uint16(port.Port))) {
			return &problem{"port " + fmt.Sprint(port.Port), fmt.Sprintf("the API server has it at %s: choose another for the service, or give load balancers a pool of addresses", addr)}
		}
		// Whether the other has the address by now does not matter: what is
		// decided must not depend on who was looked at first.
		for _, other := range w.rivals(port.Port) {
			if !slices.Contains(familiesOf(other), controllers.FamilyOf(addr)) {
				continue
			}
			for k := range other.Spec.Ports {
				q := &other.Spec.Ports[k]
				if q.Port == port.Port && cmp.Or(q.Protocol, corev1.ProtocolTCP) == protocol {
					return &problem{"Service " + other.Namespace + "/" + other.Name, fmt.Sprintf("it is older and has port %d/%s at %s", port.Port, protocol, addr)}
				}
			}
		}
	}
	return nil
}

// poolAddress is the one of a family that the service has, when it may keep it,
// or that it asks for, or a free one. An address that no family fits is asked for
// of the first.
func poolAddress(w world, f corev1.IPFamily) ([]netip.Addr, *problem) {
	taken := func(ip netip.Addr) bool { return len(w.at(ip)) > 0 }
	families := familiesOf(w.service)
	ip, err := netip.ParseAddr(w.service.Spec.LoadBalancerIP)
	if text := w.service.Spec.LoadBalancerIP; text != "" && (err == nil && controllers.FamilyOf(ip) == f || f == families[0] && (err != nil || !slices.Contains(families, controllers.FamilyOf(ip)))) {
		if err != nil || controllers.FamilyOf(ip) != f {
			return nil, &problem{"address " + text, fmt.Sprintf("the service asks for it, but has addresses of %v", families)}
		}
		if !w.pool.Contains(ip) {
			return nil, &problem{"address " + text, "the service asks for it, but it is not in the pool"}
		}
		if others := w.at(ip); len(others) > 0 {
			return nil, &problem{"Service " + others[0].Namespace + "/" + others[0].Name, fmt.Sprintf("it has the address %s, which this one asks for", ip)}
		}
		return []netip.Addr{ip}, nil
	}
	for _, in := range w.service.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(in.IP); err == nil && controllers.FamilyOf(ip) == f && w.pool.Contains(ip) && !taken(ip) {
			return []netip.Addr{ip}, nil
		}
	}
	ip, ok := w.pool.free(f, taken)
	switch {
	case !ok && !w.pool.has(f):
		return nil, &problem{"load balancer pool", fmt.Sprintf("it has no address of %s", f)}
	case !ok:
		return nil, &problem{"load balancer pool", fmt.Sprintf("every address of %s is in use", f)}
	}
	return []netip.Addr{ip}, nil
}

// precedes tells which of two services keeps what both have.
func precedes(a, b *corev1.Service) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

// ingressOf is the status that says where the service is reached. The rules of
// the nodes see the address on the packets: mode VIP.
func ingressOf(list []netip.Addr) (out []corev1.LoadBalancerIngress) {
	for _, ip := range list {
		mode := corev1.LoadBalancerIPModeVIP
		out = append(out, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: &mode})
	}
	return out
}

// withIngress returns the service with another status, nil when it has that.
func withIngress(svc *corev1.Service, list []netip.Addr) *corev1.Service {
	want := ingressOf(list)
	if equality.Semantic.DeepEqual(svc.Status.LoadBalancer.Ingress, want) {
		return nil
	}
	next := svc.DeepCopy()
	next.Status.LoadBalancer.Ingress = want
	return next
}

// withFinalizer returns the service with or without our finalizer, nil when it
// is so.
func withFinalizer(svc *corev1.Service, want bool) *corev1.Service {
	if slices.Contains(svc.Finalizers, finalizer) == want {
		return nil
	}
	next := svc.DeepCopy()
	if want {
		next.Finalizers = append(next.Finalizers, finalizer)
	} else {
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
	}
	return next
}
