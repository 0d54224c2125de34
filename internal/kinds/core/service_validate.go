package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// headless services have no address of their own.
func headless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func balanced(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer }

// maxAffinitySeconds is a day.
const maxAffinitySeconds = 24 * 60 * 60

const onlyBalanced = "may only be used when `type` is 'LoadBalancer'"

func validateService(s *corev1.Service) field.ErrorList {
	return validateServiceSince(s, &corev1.Service{})
}

// validateServiceSince lets addresses stay that were there before they had to be
// written in one way only.
func validateServiceSince(s, old *corev1.Service) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	validateTopologyAnnotations(&c, s)
	if len(s.Spec.Ports) == 0 && !headless(s) && s.Spec.Type != corev1.ServiceTypeExternalName {
		c.Required(path, "ports", "")
	}
	validateServiceType(&c, s, path)
	validateServicePorts(&c, s, path)
	if len(s.Spec.Selector) > 0 {
		c.Add(metavalidation.ValidateLabels(s.Spec.Selector, path.Child("selector")))
	}
	validateSessionAffinity(&c, s, path)
	validateClusterIPs(&c, s, old.Spec.ClusterIPs, path)
	for i, ip := range s.Spec.ExternalIPs {
		p := path.Child("externalIPs").Index(i)
		if bad := validation.IsValidIPForLegacyField(p, ip, true, old.Spec.ExternalIPs); len(bad) > 0 {
			c.Add(bad)
		} else {
			ValidateEndpointIP(&c, ip, p)
		}
	}
	check.OneOf(&c, path, "type", s.Spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	validateSourceRanges(&c, s, old, path)
	if s.Spec.AllocateLoadBalancerNodePorts != nil && !balanced(s) {
		c.Forbidden(path, "allocateLoadBalancerNodePorts", onlyBalanced)
	}
	if balanced(s) && s.Spec.AllocateLoadBalancerNodePorts == nil {
		c.Required(field.NewPath("allocateLoadBalancerNodePorts"), "", "")
	}
	if class := s.Spec.LoadBalancerClass; class != nil {
		if balanced(s) {
			c.Qualified(path, "loadBalancerClass", *class)
		} else {
			c.Forbidden(path, "loadBalancerClass", onlyBalanced)
		}
	}
	validateTraffic(&c, s, path)
	return c.List
}

func validateTopologyAnnotations(c *check.Errors, s *corev1.Service) {
	hints, old := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, now := s.Annotations[corev1.AnnotationTopologyMode]
	if old && now && mode != hints {
		c.Invalid(field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), "", mode,
			fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints))
	}
}

func validateServiceType(c *check.Errors, s *corev1.Service, path *field.Path) {
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if headless(s) {
			c.Invalid(path.Child("clusterIPs").Index(0), "", corev1.ClusterIPNone, fmt.Sprintf("may not be set to 'None' for %s services", s.Spec.Type))
		}
	case corev1.ServiceTypeExternalName:
		const detail = "may not be set for ExternalName services"
		if len(s.Spec.ClusterIPs) > 0 {
			c.Forbidden(path, "clusterIPs", detail)
		}
		if len(s.Spec.IPFamilies) > 0 {
			c.Forbidden(path, "ipFamilies", detail)
		}
		if s.Spec.IPFamilyPolicy != nil {
			c.Forbidden(path, "ipFamilyPolicy", detail)
		}
		name := strings.TrimSuffix(s.Spec.ExternalName, ".")
		if name == "" {
			c.Required(path, "externalName", "")
		} else {
			c.Subdomain(path, "externalName", name)
		}
	}
}

func validateServicePorts(c *check.Errors, s *corev1.Service, path *field.Path) {
	type number struct {
		protocol corev1.Protocol
		port     int32
	}
	var names check.Unique[string]
	var nodePorts, numbers check.Unique[number]
	for i := range s.Spec.Ports {
		port, p := &s.Spec.Ports[i], path.Child("ports").Index(i)
		if port.Name != "" {
			c.Label(p, "name", port.Name)
			if names.Seen(port.Name) {
				c.Duplicate(p, "name", port.Name)
			}
		} else if len(s.Spec.Ports) > 1 {
			c.Required(p, "name", "")
		}
		c.Port(p, "port", port.Port)
		validateProtocol(c, p, port.Protocol)
		validatePortOrName(c, p, "targetPort", port.TargetPort)
		if port.AppProtocol != nil {
			c.Qualified(p, "appProtocol", *port.AppProtocol)
		}
		if s.Spec.Type == corev1.ServiceTypeClusterIP && port.NodePort != 0 {
			c.Forbidden(p, "nodePort", "may not be used when `type` is 'ClusterIP'")
		}
		if port.NodePort != 0 && nodePorts.Seen(number{port.Protocol, port.NodePort}) {
			c.Duplicate(p, "nodePort", port.NodePort)
		}
		if numbers.Seen(number{port.Protocol, port.Port}) {
			c.Duplicate(p, "", corev1.ServicePort{Protocol: port.Protocol, Port: port.Port})
		}
	}
}

func validateSessionAffinity(c *check.Errors, s *corev1.Service, path *field.Path) {
	check.OneOf(c, path, "sessionAffinity", s.Spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	config, p := s.Spec.SessionAffinityConfig, path.Child("sessionAffinityConfig")
	switch s.Spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		if config != nil {
			c.Forbidden(p, "", fmt.Sprintf("must not be set when session affinity is %s", corev1.ServiceAffinityNone))
		}
	case corev1.ServiceAffinityClientIP:
		detail := fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)
		switch {
		case config == nil:
			c.Required(p, "", detail)
		case config.ClientIP == nil:
			c.Required(p, "clientIP", detail)
		case config.ClientIP.TimeoutSeconds == nil:
			c.Required(p.Child("clientIP"), "timeoutSeconds", detail)
		case *config.ClientIP.TimeoutSeconds <= 0 || *config.ClientIP.TimeoutSeconds > maxAffinitySeconds:
			c.Invalid(p.Child("clientIP"), "timeoutSeconds", *config.ClientIP.TimeoutSeconds, fmt.Sprintf("must be greater than 0 and less than %d", maxAffinitySeconds))
		}
	}
}

// validateClusterIPs checks addresses, their families, and that the two agree.
func validateClusterIPs(c *check.Errors, s *corev1.Service, before []string, path *field.Path) {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	ips := s.Spec.ClusterIPs
	switch {
	case s.Spec.ClusterIP == "" && len(ips) > 0:
		c.Invalid(path, "clusterIPs", ips, "must be empty when `clusterIP` is not specified")
	case s.Spec.ClusterIP != "" && len(ips) == 0:
		c.Required(path, "clusterIPs", "")
	case len(ips) > 0 && ips[0] != s.Spec.ClusterIP:
		c.Invalid(path, "clusterIPs", ips, "first value must match `clusterIP`")
	}
	var families check.Unique[corev1.IPFamily]
	for i, family := range s.Spec.IPFamilies {
		p := path.Child("ipFamilies").Index(i)
		check.Among(c, p, "", family, corev1.IPv4Protocol, corev1.IPv6Protocol)
		if families.Seen(family) {
			c.Duplicate(p, "", family)
		}
	}
	if policy := s.Spec.IPFamilyPolicy; policy != nil {
		check.Among(c, path, "ipFamilyPolicy", *policy, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)
	}
	if validClusterIPs(c, ips, before, path) && !headless(s) {
		familiesAgree(c, s, path)
	}
}

func validClusterIPs(c *check.Errors, ips, before []string, path *field.Path) (valid bool) {
	valid = true
	for i, ip := range ips {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(ips) > 1 {
				valid = false
				c.Invalid(path, "clusterIPs", ips, "'None' must be the first and only value")
			}
			continue
		}
		if bad := validation.IsValidIPForLegacyField(path.Child("clusterIPs").Index(i), ip, true, before); len(bad) > 0 {
			valid = false
			c.Add(bad)
		}
	}
	if len(ips) > 2 {
		c.Invalid(path, "clusterIPs", ips, "may only hold up to 2 values")
	}
	if valid && len(ips) > 1 {
		if dual, err := netutils.IsDualStackIPStrings(ips); err != nil || !dual {
			c.Invalid(path, "clusterIPs", ips, "may specify no more than one IP for each IP family")
		}
	}
	return valid
}

func familiesAgree(c *check.Errors, s *corev1.Service, path *field.Path) {
	for i, ip := range s.Spec.ClusterIPs {
		if i >= len(s.Spec.IPFamilies) {
			return
		}
		family := s.Spec.IPFamilies[i]
		if (family == corev1.IPv4Protocol || family == corev1.IPv6Protocol) && netutils.IsIPv6String(ip) != (family == corev1.IPv6Protocol) {
			c.Invalid(path.Child("clusterIPs").Index(i), "", ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", family, i))
		}
	}
}

func validateSourceRanges(c *check.Errors, s, old *corev1.Service, path *field.Path) {
	if len(s.Spec.LoadBalancerSourceRanges) > 0 {
		p := path.Child("LoadBalancerSourceRanges") // upstream's spelling
		if !balanced(s) {
			c.Forbidden(p, "", onlyBalanced)
		}
		var before []string
		for _, cidr := range old.Spec.LoadBalancerSourceRanges {
			before = append(before, strings.TrimSpace(cidr))
		}
		for i, cidr := range s.Spec.LoadBalancerSourceRanges {
			c.Add(validation.IsValidCIDRForLegacyField(p.Index(i), strings.TrimSpace(cidr), true, before))
		}
		return
	}
	value, ok := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !ok {
		return
	}
	p := field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if !balanced(s) {
		c.Forbidden(p, "", onlyBalanced)
	}
	if value == old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] {
		return
	}
	if value = strings.TrimSpace(value); value != "" {
		for cidr := range strings.SplitSeq(value, ",") {
			c.Add(validation.IsValidCIDRForLegacyField(p, strings.TrimSpace(cidr), true, nil))
		}
	}
}

func validateTraffic(c *check.Errors, s *corev1.Service, path *field.Path) {
	policy := s.Spec.ExternalTrafficPolicy
	switch {
	case external(s):
		check.OneOf(c, path, "externalTrafficPolicy", policy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	case policy != "":
		c.Invalid(path, "externalTrafficPolicy", policy, "may only be set for externally-accessible services")
	}
	switch port := s.Spec.HealthCheckNodePort; {
	case !healthChecked(s) && port != 0:
		c.Invalid(path, "healthCheckNodePort", port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	case healthChecked(s) && port == 0:
		c.Required(path, "healthCheckNodePort", "")
	case healthChecked(s):
		c.Port(path, "healthCheckNodePort", port)
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil {
		check.Among(c, path, "internalTrafficPolicy", *p, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	} else if s.Spec.Type == corev1.ServiceTypeClusterIP || external(s) {
		c.Required(path, "internalTrafficPolicy", "")
	}
	if d := s.Spec.TrafficDistribution; d != nil {
		check.Among(c, path, "trafficDistribution", *d, corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	}
}

// healthChecked services tell balancers on a port of their own which nodes
// have endpoints.
func healthChecked(s *corev1.Service) bool {
	return balanced(s) && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}
