package admission

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// families decides which families of addresses a service has, and by which
// policy. What nobody said follows from the addresses that somebody named, from
// what the service was before, and from the cluster, in this order.
//
// A service of one family gets a second, and one of two loses it, only when its
// policy or its addresses say so in this very request: never by an update of
// something else after the cluster has changed.
// https://kubernetes.io/docs/concepts/services-networking/dual-stack/#services
func (a *ServiceAllocator) families(svc, old *corev1.Service) error {
	spec := &svc.Spec
	if spec.Type == corev1.ServiceTypeExternalName || keepsPreferred(svc, old) {
		return nil
	}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = new(policyOf(svc, old))
	}
	if singleStack(svc) && old != nil {
		releaseSecond(spec, &old.Spec)
	}
	var errs field.ErrorList
	path := field.NewPath("spec")
	if singleStack(svc) {
		for _, several := range []struct {
			what string
			n    int
		}{{"clusterIPs", len(spec.ClusterIPs)}, {"ipFamilies", len(spec.IPFamilies)}} {
			if several.n > 1 {
				errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), *spec.IPFamilyPolicy, "must be RequireDualStack or PreferDualStack when multiple "+several.what+" are specified"))
			}
		}
	}
	if !isHeadless(svc) {
		for i := len(spec.IPFamilies); i < len(spec.ClusterIPs); i++ {
			ip, _ := netip.ParseAddr(spec.ClusterIPs[i]) // wellFormed has read it
			f := familyOf(ip)
			if !a.has(f) {
				errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(i), spec.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", f)))
				continue
			}
			spec.IPFamilies = append(spec.IPFamilies, f)
		}
	}
	if len(errs) > 0 {
		return invalidService(svc, errs)
	}
	// The endpoints of a headless service without a selector are somebody
	// else's, and may be of any family.
	others := isHeadless(svc) && len(spec.Selector) == 0
	if !others {
		if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(a.cidrs) < 2 {
			errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), *spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
		}
		for i, f := range spec.IPFamilies {
			if !a.has(f) {
				errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), f, "not configured on this cluster"))
			}
		}
		if len(errs) > 0 {
			return invalidService(svc, errs)
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{familyOf(a.cidrs[0].Addr())}
	}
	if !singleStack(svc) && len(spec.IPFamilies) == 1 && (others || len(a.cidrs) == 2) {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

// has tells whether services can have addresses of a family.
func (a *ServiceAllocator) has(f corev1.IPFamily) bool {
	return slices.ContainsFunc(a.cidrs, func(p netip.Prefix) bool { return familyOf(p.Addr()) == f })
}

// policyOf is that of a service which names none: what it had before, else one
// family, or both where its endpoints are anybody's.
func policyOf(svc, old *corev1.Service) corev1.IPFamilyPolicy {
	switch {
	case old != nil && old.Spec.IPFamilyPolicy != nil:
		return *old.Spec.IPFamilyPolicy
	case isHeadless(svc) && len(svc.Spec.Selector) == 0:
		return corev1.IPFamilyPolicyRequireDualStack
	}
	return corev1.IPFamilyPolicySingleStack
}

// keepsPreferred tells of a service that prefers two families and stays as it
// was, whatever the cluster could give it by now.
func keepsPreferred(svc, old *corev1.Service) bool {
	if old == nil || old.Spec.Type != svc.Spec.Type {
		return false
	}
	prefers := func(p *corev1.IPFamilyPolicy) bool { return p != nil && *p == corev1.IPFamilyPolicyPreferDualStack }
	return prefers(svc.Spec.IPFamilyPolicy) && (old.Spec.IPFamilyPolicy == nil || prefers(old.Spec.IPFamilyPolicy)) &&
		slices.Equal(svc.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(svc.Spec.IPFamilies, old.Spec.IPFamilies)
}

// releaseSecond takes from a service that is to have one family what it still
// says of its second.
func releaseSecond(spec, was *corev1.ServiceSpec) {
	if len(spec.ClusterIPs) == 2 && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		spec.ClusterIPs = spec.ClusterIPs[:1:1]
	}
	if len(spec.IPFamilies) == 2 && slices.Equal(spec.IPFamilies, was.IPFamilies) {
		spec.IPFamilies = spec.IPFamilies[:1:1]
	}
}

func singleStack(svc *corev1.Service) bool {
	return *svc.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
}

func isHeadless(svc *corev1.Service) bool {
	return svc.Spec.ClusterIP == corev1.ClusterIPNone
}

// wellFormed tells that addresses and families can be worked with. Of others,
// validation says what is wrong with them.
func wellFormed(spec *corev1.ServiceSpec) bool {
	if len(spec.ClusterIPs) > 2 || len(spec.IPFamilies) > 2 || len(spec.IPFamilies) == 2 && spec.IPFamilies[0] == spec.IPFamilies[1] {
		return false
	}
	if len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != spec.ClusterIP || len(spec.ClusterIPs) == 0 && spec.ClusterIP != "" {
		return false
	}
	for _, f := range spec.IPFamilies {
		if f != corev1.IPv4Protocol && f != corev1.IPv6Protocol {
			return false
		}
	}
	if p := spec.IPFamilyPolicy; p != nil && *p != corev1.IPFamilyPolicySingleStack && *p != corev1.IPFamilyPolicyPreferDualStack && *p != corev1.IPFamilyPolicyRequireDualStack {
		return false
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		return len(spec.ClusterIPs) == 1
	}
	var seen []corev1.IPFamily
	for i, text := range spec.ClusterIPs {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Is4In6() || ip.Zone() != "" || slices.Contains(seen, familyOf(ip)) || i < len(spec.IPFamilies) && spec.IPFamilies[i] != familyOf(ip) {
			return false
		}
		seen = append(seen, familyOf(ip))
	}
	return true
}

func invalidService(svc *corev1.Service, errs field.ErrorList) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, errs)
}
