package endpointslice

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/controllers"
)

// Backend tells whether a pod has an address to lead to: terminating ones too,
// for connections are drained to them.
func Backend(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && !controllers.Ended(pod)
}

// Hostname is what the service's DNS name of the pod begins with, or "".
func Hostname(service *corev1.Service, pod *corev1.Pod) string {
	if pod.Spec.Hostname != "" && pod.Spec.Subdomain == service.Name && pod.Namespace == service.Namespace {
		return pod.Spec.Hostname
	}
	return ""
}

// Address is the pod's address of a family, or "".
func Address(pod *corev1.Pod, family corev1.IPFamily) string {
	for _, ip := range pod.Status.PodIPs {
		if familyOf(ip.IP) == family {
			return ip.IP
		}
	}
	if familyOf(pod.Status.PodIP) == family {
		return pod.Status.PodIP
	}
	return ""
}

func familyOf(text string) corev1.IPFamily {
	ip, _ := netip.ParseAddr(text)
	return controllers.FamilyOf(ip)
}

// TargetPort is the number of the pod's port that a service's port leads to;
// false when a port is meant by a name that the pod does not have.
func TargetPort(pod *corev1.Pod, port *corev1.ServicePort) (int32, bool) {
	if port.TargetPort.Type == intstr.Int {
		if port.TargetPort.IntVal == 0 {
			return port.Port, true
		}
		return port.TargetPort.IntVal, true
	}
	find := func(c *corev1.Container) (int32, bool) {
		for _, p := range c.Ports {
			if p.Name == port.TargetPort.StrVal && cmp.Or(p.Protocol, corev1.ProtocolTCP) == cmp.Or(port.Protocol, corev1.ProtocolTCP) {
				return p.ContainerPort, true
			}
		}
		return 0, false
	}
	for i := range pod.Spec.Containers {
		if n, ok := find(&pod.Spec.Containers[i]); ok {
			return n, true
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue // it does not run beside the others
		}
		if n, ok := find(c); ok {
			return n, true
		}
	}
	return 0, false
}

// portsOf are the ports of a pod that a service leads to.
func portsOf(service *corev1.Service, pod *corev1.Pod) []discoveryv1.EndpointPort {
	ports := make([]discoveryv1.EndpointPort, 0, len(service.Spec.Ports))
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		number, ok := TargetPort(pod, p)
		if !ok {
			continue
		}
		protocol := cmp.Or(p.Protocol, corev1.ProtocolTCP)
		ports = append(ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &number, Protocol: &protocol, AppProtocol: p.AppProtocol})
	}
	return ports
}

// endpointOf is a pod as an endpoint of a service. zone is its node's.
//
// https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#conditions
func endpointOf(service *corev1.Service, pod *corev1.Pod, address, zone string) discoveryv1.Endpoint {
	serving, terminating := controllers.Ready(pod), pod.DeletionTimestamp != nil
	ready := service.Spec.PublishNotReadyAddresses || serving && !terminating
	ep := discoveryv1.Endpoint{
		Addresses:  []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if pod.Spec.NodeName != "" {
		ep.NodeName = &pod.Spec.NodeName
	}
	if zone != "" {
		ep.Zone = &zone
	}
	if hostname := Hostname(service, pod); hostname != "" {
		ep.Hostname = &hostname
	}
	if ready {
		ep.Hints = hintsFor(service, ep)
	}
	return ep
}

// hintsFor says where an endpoint is to be preferred. Those of a service whose
// endpoints are spread over zones get their hints together.
//
// https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-distribution
func hintsFor(service *corev1.Service, ep discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	if service.Spec.TrafficDistribution == nil || auto(service) {
		return nil
	}
	hints := &discoveryv1.EndpointHints{}
	if ep.Zone != nil {
		hints.ForZones = []discoveryv1.ForZone{{Name: *ep.Zone}}
	}
	switch *service.Spec.TrafficDistribution {
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone:
	case corev1.ServiceTrafficDistributionPreferSameNode:
		if ep.NodeName != nil {
			hints.ForNodes = []discoveryv1.ForNode{{Name: *ep.NodeName}}
		}
	default:
		return nil
	}
	if len(hints.ForZones)+len(hints.ForNodes) == 0 {
		return nil
	}
	return hints
}

// sortPods gives pods the order in which they fill slices: old ones first, so
// that slices that are full stay as they are.
func sortPods(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
