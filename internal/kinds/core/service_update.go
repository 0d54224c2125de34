package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// An address or family once given may go only where the service becomes, or
// has been, one that has none; a second may come and go.
// https://kubernetes.io/docs/concepts/services-networking/dual-stack/

func validateServiceUpdate(s, old *corev1.Service) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	if s.Spec.Type != corev1.ServiceTypeExternalName && old.Spec.Type != corev1.ServiceTypeExternalName {
		if !headless(s) || !headless(old) {
			clusterIPsKept(&c, s, old, path)
		}
		if !headless(s) && !headless(old) {
			familiesKept(&c, s, old, path)
		}
	}
	if balanced(s) && balanced(old) && group(s.Spec.LoadBalancerClass) != group(old.Spec.LoadBalancerClass) {
		c.Invalid(path, "loadBalancerClass", s.Spec.LoadBalancerClass, keptOnceSet)
	}
	if healthChecked(s) && healthChecked(old) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		c.Forbidden(path, "healthCheckNodePort", "field is immutable")
	}
	c.Add(validateServiceSince(s, old))
	return c.List
}

const keptOnceSet = "may not change once set"

func singleStack(s *corev1.Service) bool {
	return s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
}

func clusterIPsKept(c *check.Errors, s, old *corev1.Service, path *field.Path) {
	now, was := s.Spec.ClusterIPs, old.Spec.ClusterIPs
	p := path.Child("clusterIPs")
	switch {
	case len(now) == len(was):
		for i := range was {
			if now[i] != was[i] {
				c.Invalid(p.Index(i), "", now, keptOnceSet)
			}
		}
	case len(now) == 0:
		c.Invalid(p.Index(0), "", now, "primary clusterIP can not be unset")
	default:
		if len(was) > 0 && now[0] != was[0] {
			c.Invalid(p.Index(0), "", now, keptOnceSet)
		}
		if len(now) == 1 && len(was) > 1 && !singleStack(s) {
			c.Invalid(path, "ipFamilyPolicy", s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP")
		}
	}
}

func familiesKept(c *check.Errors, s, old *corev1.Service, path *field.Path) {
	now, was := s.Spec.IPFamilies, old.Spec.IPFamilies
	p := path.Child("ipFamilies").Index(0)
	if len(now) == len(was) {
		for i := range was {
			if now[i] != was[i] {
				c.Invalid(p, "", now, keptOnceSet)
			}
		}
		return
	}
	if len(now) < len(was) && len(s.Spec.ClusterIPs) == 0 {
		c.Invalid(p, "", now, "primary ipFamily can not be unset")
	}
	if len(now) > 0 && len(was) > 0 && now[0] != was[0] {
		c.Invalid(p, "", s.Spec.ClusterIPs, keptOnceSet)
	}
	if len(now) == 1 && len(was) > 1 && !singleStack(s) {
		c.Invalid(path, "ipFamilyPolicy", s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily")
	}
}

func validateServiceStatus(s, old *corev1.Service) field.ErrorList {
	var c check.Errors
	path := field.NewPath("status", "loadBalancer", "ingress")
	if !balanced(s) && len(s.Status.LoadBalancer.Ingress) > 0 {
		c.Forbidden(path, "", "may only be used when `spec.type` is 'LoadBalancer'")
		return c.List
	}
	var before []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		before = append(before, in.IP)
	}
	for i, in := range s.Status.LoadBalancer.Ingress {
		p := path.Index(i)
		if in.IP != "" {
			c.Add(validation.IsValidIPForLegacyField(p.Child("ip"), in.IP, true, before))
		}
		switch {
		case in.IPMode == nil && in.IP != "":
			c.Required(p, "ipMode", "must be specified when `ip` is set")
		case in.IPMode != nil && in.IP == "":
			c.Forbidden(p, "ipMode", "may not be specified when `ip` is not set")
		case in.IPMode != nil:
			check.Among(&c, p, "ipMode", *in.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)
		}
		if in.Hostname != "" {
			c.Subdomain(p, "hostname", in.Hostname)
			if netutils.ParseIPSloppy(in.Hostname) != nil {
				c.Invalid(p, "hostname", in.Hostname, "must be a DNS name, not an IP address")
			}
		}
	}
	return c.List
}
