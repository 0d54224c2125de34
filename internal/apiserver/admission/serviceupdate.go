package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// carryOver makes an update that does not speak of allocated values keep them,
// and one that changes the type drop what the new type has no use for, so that
// a person can apply the same manifest again, or change its type, without
// knowing what was allocated.
func carryOver(svc, old *corev1.Service) {
	dropForType(svc, old)
	spec, was := &svc.Spec, &old.Spec
	if needsClusterIP(svc) && needsClusterIP(old) {
		if spec.ClusterIP == "" {
			spec.ClusterIP = was.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 && spec.ClusterIP == was.ClusterIP {
			spec.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
	}
	// Whoever changes only clusterIP means clusterIPs as well.
	if spec.ClusterIP != was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		spec.ClusterIPs = nil
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
	if needsClusterIP(old) && !needsClusterIP(svc) && spec.Type == corev1.ServiceTypeExternalName &&
		spec.ClusterIP == was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		spec.ClusterIP, spec.ClusterIPs = "", nil
		spec.IPFamilies, spec.IPFamilyPolicy = nil, nil
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

// families makes the families fit a cluster that knows IPv4 only, and the
// plural of the cluster IP fit the singular.
// https://kubernetes.io/docs/concepts/services-networking/dual-stack/
func (a *ServiceAllocator) families(svc, old *corev1.Service) error {
	spec := &svc.Spec
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.Type == corev1.ServiceTypeExternalName || spec.Type == "" {
		return nil
	}
	// Endpoints of a headless service without a selector are somebody else's,
	// and may be of any family.
	if spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0 {
		if spec.IPFamilyPolicy == nil {
			policy := corev1.IPFamilyPolicyRequireDualStack
			spec.IPFamilyPolicy = &policy
		}
		if *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack {
			if len(spec.IPFamilies) == 0 {
				spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
			}
			return nil
		}
		switch {
		case len(spec.IPFamilies) == 0:
			spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		case len(spec.IPFamilies) == 1 && spec.IPFamilies[0] == corev1.IPv4Protocol:
			spec.IPFamilies = append(spec.IPFamilies, corev1.IPv6Protocol)
		case len(spec.IPFamilies) == 1:
			spec.IPFamilies = append(spec.IPFamilies, corev1.IPv4Protocol)
		}
		return nil
	}
	var errs field.ErrorList
	path := field.NewPath("spec")
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		spec.IPFamilyPolicy = &policy
	} else if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && (old == nil || old.Spec.IPFamilyPolicy == nil || *old.Spec.IPFamilyPolicy != corev1.IPFamilyPolicyRequireDualStack) {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), *spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
	}
	for i, f := range spec.IPFamilies {
		if f == corev1.IPv6Protocol {
			errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), f, "not configured on this cluster"))
		}
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, errs)
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return nil
}
