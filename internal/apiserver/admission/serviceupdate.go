package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// carryOver makes an update that does not speak of allocated values keep them,
// and one that changes the type drop what the new type has no use for, so that
// a person can apply the same manifest again, or change its type, without
// knowing what was allocated.
func carryOver(svc, old *corev1.Service) {
	dropForType(svc, old)
	spec, was := &svc.Spec, &old.Spec
	if hasClusterIP(svc) && hasClusterIP(old) {
		if spec.ClusterIP == "" {
			spec.ClusterIP = was.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 && spec.ClusterIP == was.ClusterIP {
			spec.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
	}
	// Whoever changes only clusterIP knows nothing of clusterIPs, and means its
	// first.
	if spec.ClusterIP != was.ClusterIP && len(was.ClusterIPs) > 0 && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		if spec.ClusterIPs = nil; spec.ClusterIP != "" {
			spec.ClusterIPs = append([]string{spec.ClusterIP}, was.ClusterIPs[1:]...)
		}
	}
	if needsNodePorts(svc) && needsNodePorts(old) {
		carryNodePorts(spec.Ports, was.Ports)
	}
	if needsHealthCheckPort(svc) && needsHealthCheckPort(old) && spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort = was.HealthCheckNodePort
	}
}

// carryNodePorts gives ports without a node port that of the same port before.
func carryNodePorts(ports, was []corev1.ServicePort) {
	type key struct {
		protocol corev1.Protocol
		port     int32
	}
	before := map[key]int32{}
	for _, p := range was {
		before[key{p.Protocol, p.Port}] = p.NodePort
	}
	used := map[key]bool{} // protocol and node port
	for _, p := range ports {
		used[key{p.Protocol, p.NodePort}] = true
	}
	for i := range ports {
		if ports[i].NodePort != 0 {
			continue
		}
		n := before[key{ports[i].Protocol, ports[i].Port}]
		if n != 0 && !used[key{ports[i].Protocol, n}] {
			ports[i].NodePort = n
			used[key{ports[i].Protocol, n}] = true
		}
	}
}

// dropForType drops what was allocated for the old type, unless the update
// changed it: then validation shall say that it does not fit.
func dropForType(svc, old *corev1.Service) {
	spec, was := &svc.Spec, &old.Spec
	if hasClusterIP(old) && !hasClusterIP(svc) {
		if spec.ClusterIP == was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(spec.IPFamilies, was.IPFamilies) {
			spec.IPFamilies = nil
		}
		if p := spec.IPFamilyPolicy; p != nil && was.IPFamilyPolicy != nil && *p == *was.IPFamilyPolicy {
			spec.IPFamilyPolicy = nil
		}
	}
	if needsNodePorts(old) && !needsNodePorts(svc) && sameNodePorts(spec.Ports, was.Ports) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if needsHealthCheckPort(old) && !needsHealthCheckPort(svc) && spec.HealthCheckNodePort == was.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if was.Type == corev1.ServiceTypeLoadBalancer && spec.Type != corev1.ServiceTypeLoadBalancer {
		if spec.AllocateLoadBalancerNodePorts != nil && was.AllocateLoadBalancerNodePorts != nil && *spec.AllocateLoadBalancerNodePorts == *was.AllocateLoadBalancerNodePorts {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if spec.LoadBalancerClass != nil && was.LoadBalancerClass != nil && *spec.LoadBalancerClass == *was.LoadBalancerClass {
			spec.LoadBalancerClass = nil
		}
	}
	if external(was.Type) && !external(spec.Type) && spec.ExternalTrafficPolicy == was.ExternalTrafficPolicy && len(spec.ExternalIPs) == 0 {
		spec.ExternalTrafficPolicy = ""
	}
}

func external(t corev1.ServiceType) bool {
	return t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer
}

func sameNodePorts(a, b []corev1.ServicePort) bool {
	ports := func(list []corev1.ServicePort) (out []int32) {
		for _, p := range list {
			out = append(out, p.NodePort)
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(ports(a), ports(b))
}
