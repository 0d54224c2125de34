package clusterdns

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/dns/feed"

	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/sliceset"
)

const (
	serviceName = "kube-dns"
	// managedBy marks the service and the slices that are ours.
	managedBy = "clusterdns.setpoint.dev"
	labelBy   = "app.kubernetes.io/managed-by"
	port      = 53
	// maxEndpoints is how many endpoints a slice may hold.
	maxEndpoints = 1000
)

// ours tells a service that we made and nobody has taken over: by a selector,
// somebody else's pods serve the names.
func ours(svc *corev1.Service) bool {
	return svc.Labels[labelBy] == managedBy && len(svc.Spec.Selector) == 0 && svc.Spec.Type == corev1.ServiceTypeClusterIP
}

// wantService is the service as conventional: its name, its labels, the tenth
// address, its ports' names are what add-ons and suites look for.
func wantService(ips []netip.Addr) *corev1.Service {
	policy, cluster, near := corev1.IPFamilyPolicySingleStack, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceTrafficDistributionPreferSameNode
	if len(ips) > 1 {
		policy = corev1.IPFamilyPolicyPreferDualStack
	}
	var addresses []string
	var families []corev1.IPFamily
	for _, ip := range ips {
		addresses, families = append(addresses, ip.String()), append(families, controllers.FamilyOf(ip))
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: serviceName, Labels: map[string]string{
			"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "Setpoint", labelBy: managedBy}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: addresses[0], ClusterIPs: addresses,
			IPFamilyPolicy: &policy, IPFamilies: families, SessionAffinity: corev1.ServiceAffinityNone,
			InternalTrafficPolicy: &cluster, TrafficDistribution: &near,
			Ports: []corev1.ServicePort{
				{Name: "dns", Protocol: corev1.ProtocolUDP, Port: port, TargetPort: intstr.FromInt32(feed.Port)},
				{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(feed.Port)},
			},
		},
	}
}

// mended returns a changed copy of a service of ours, or nil when it is right.
// An address cannot be changed, but a cluster that has been given a second
// family adds one of that.
func mended(svc *corev1.Service, want *corev1.Service) *corev1.Service {
	next := svc.DeepCopy()
	next.Spec.Ports, next.Spec.TrafficDistribution = want.Spec.Ports, want.Spec.TrafficDistribution
	if had := svc.Spec.ClusterIPs; len(had) == 1 && len(want.Spec.ClusterIPs) == 2 && had[0] == want.Spec.ClusterIPs[0] {
		next.Spec.ClusterIPs, next.Spec.IPFamilies, next.Spec.IPFamilyPolicy = want.Spec.ClusterIPs, want.Spec.IPFamilies, want.Spec.IPFamilyPolicy
	}
	if equality.Semantic.DeepEqual(svc.Spec, next.Spec) {
		return nil
	}
	return next
}

// alive tells whether a node is heard of. One that is not Ready for another
// reason still answers names.
func alive(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionUnknown
		}
	}
	return true
}

// wantSlices lists the servers of all nodes, a slice for each family of the
// service and each port that they use: one, as a rule. Each is meant for its own
// node's pods. More than a slice holds are left out; their nodes use another's
// server.
func wantSlices(svc *corev1.Service, nodes []*corev1.Node) []*discoveryv1.EndpointSlice {
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var out []*discoveryv1.EndpointSlice
	for _, node := range nodes {
		if node.DeletionTimestamp != nil {
			continue
		}
		for _, at := range feed.Parse(node.Annotations[feed.Annotation]) {
			family := controllers.FamilyOf(at.Addr())
			if !slices.Contains(svc.Spec.IPFamilies, family) {
				continue
			}
			name := sliceName(family, at.Port())
			i := slices.IndexFunc(out, func(s *discoveryv1.EndpointSlice) bool { return s.Name == name })
			if i < 0 {
				i = len(out)
				out = append(out, newSlice(svc, name, family, int32(at.Port())))
			}
			if len(out[i].Endpoints) < maxEndpoints {
				out[i].Endpoints = append(out[i].Endpoints, endpointOf(node, at.Addr()))
			}
		}
	}
	return out
}

func sliceName(family corev1.IPFamily, port uint16) string {
	if family == corev1.IPv6Protocol {
		return fmt.Sprintf("%s-ipv6-%d", serviceName, port)
	}
	return fmt.Sprintf("%s-%d", serviceName, port)
}

func newSlice(svc *corev1.Service, name string, family corev1.IPFamily, number int32) *discoveryv1.EndpointSlice {
	udp, tcp, names := corev1.ProtocolUDP, corev1.ProtocolTCP, [2]string{"dns", "dns-tcp"}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: name,
			Labels:          map[string]string{discoveryv1.LabelServiceName: serviceName, discoveryv1.LabelManagedBy: managedBy},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))}},
		AddressType: discoveryv1.AddressType(family),
		Ports:       []discoveryv1.EndpointPort{{Name: &names[0], Protocol: &udp, Port: &number}, {Name: &names[1], Protocol: &tcp, Port: &number}},
	}
}

func endpointOf(node *corev1.Node, addr netip.Addr) discoveryv1.Endpoint {
	up, ending := alive(node), false
	return discoveryv1.Endpoint{
		Addresses: []string{addr.String()}, NodeName: &node.Name,
		Conditions: discoveryv1.EndpointConditions{Ready: &up, Serving: &up, Terminating: &ending},
		Hints:      &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: node.Name}}},
	}
}

// planSlices returns the next write that makes the slices those wanted. What
// others note on them stays.
func planSlices(had, want []*discoveryv1.EndpointSlice) sliceset.Step {
	return sliceset.Next(had, want, func(into, want *discoveryv1.EndpointSlice) {
		into.Endpoints, into.Ports, into.OwnerReferences, into.Labels = want.Endpoints, want.Ports, want.OwnerReferences, want.Labels
	})
}
