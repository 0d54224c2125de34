package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An address is kept as it was written, and whoever compares what objects say,
// as text, will find two spellings of one address different. So who writes one
// in a form that is not the usual one is told which that is.
// https://www.rfc-editor.org/rfc/rfc5952

// serviceWarnings warns of addresses, and of what a service without an address
// of its own has no use for.
func serviceWarnings(s, _ *corev1.Service) []string {
	var out []string
	spec, path := &s.Spec, field.NewPath("spec")
	headless := spec.ClusterIP == corev1.ClusterIPNone
	if !headless {
		for i, ip := range spec.ClusterIPs {
			out = append(out, AddressWarnings(path.Child("clusterIPs").Index(i), ip)...)
		}
	}
	for i, ip := range spec.ExternalIPs {
		out = append(out, AddressWarnings(path.Child("externalIPs").Index(i), ip)...)
	}
	out = append(out, AddressWarnings(path.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	for i, cidr := range spec.LoadBalancerSourceRanges {
		out = append(out, RangeWarnings(path.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	if headless {
		ignored := func(name string) {
			out = append(out, path.Child(name).String()+` is ignored when spec.clusterIP is "None"`)
		}
		if spec.LoadBalancerIP != "" {
			ignored("loadBalancerIP")
		}
		if len(spec.ExternalIPs) > 0 {
			ignored("externalIPs")
		}
		if spec.SessionAffinity != "" && spec.SessionAffinity != corev1.ServiceAffinityNone {
			ignored("SessionAffinity") // upstream's capital
		}
	}
	return out
}

// AddressWarnings of what may be an address. Warnings are asked for what may not
// be valid.
func AddressWarnings(path *field.Path, ip string) []string {
	if ip == "" || len(validation.IsValidIPForLegacyField(path, ip, false, nil)) > 0 {
		return nil
	}
	return validation.GetWarningsForIP(path, ip)
}

// RangeWarnings is AddressWarnings for a range.
func RangeWarnings(path *field.Path, cidr string) []string {
	if len(validation.IsValidCIDRForLegacyField(path, cidr, false, nil)) > 0 {
		return nil
	}
	return validation.GetWarningsForCIDR(path, cidr)
}
