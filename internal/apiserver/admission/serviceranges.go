package admission

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/setpoint-project/setpoint/internal/client"
)

// defaultServiceCIDR names the ServiceCIDR of the ranges that the cluster was
// made with; ipAllocator marks the IPAddresses that follow services.
const (
	defaultServiceCIDR = "kubernetes"
	ipAllocator        = "ipallocator.k8s.io"
)

// Lengths of the prefix of a range that the cluster is made with: room for the
// first services, and as many addresses as upstream allows at the most. Of
// ServiceCIDRs those are used that are a /64 of IPv6 or less.
const (
	largestIPv4, smallestIPv4 = 12, 30
	largestIPv6, smallestIPv6 = 108, 126
	largestFurtherIPv6        = 64
)

func validServiceRanges(cidrs []netip.Prefix) error {
	if len(cidrs) == 0 || len(cidrs) > 2 || len(cidrs) == 2 && familyOf(cidrs[0].Addr()) == familyOf(cidrs[1].Addr()) {
		return fmt.Errorf("service ranges %v: want one, or one of each family", cidrs)
	}
	for _, p := range cidrs {
		switch {
		case p.Addr().Is4() && (p.Bits() < largestIPv4 || p.Bits() > smallestIPv4):
			return fmt.Errorf("service range %s: want an IPv4 range between /%d and /%d", p, largestIPv4, smallestIPv4)
		case !p.Addr().Is4() && (p.Bits() < largestIPv6 || p.Bits() > smallestIPv6):
			return fmt.Errorf("service range %s: want an IPv6 range between /%d and /%d", p, largestIPv6, smallestIPv6)
		}
	}
	return nil
}

func familyOf(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// ranges are where addresses are given out from, those that the cluster was
// made with first. They are among them until their ServiceCIDR is being deleted,
// the others once they are ready. A family that the cluster was not made with
// has none.
func (a *ServiceAllocator) ranges(ctx context.Context) (map[corev1.IPFamily][]netip.Prefix, error) {
	list, err := a.list(ctx, client.ServiceCIDRs, "")
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("read the ranges of service addresses: %w", err))
	}
	slices.SortFunc(list, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	out := map[corev1.IPFamily][]netip.Prefix{}
	for _, p := range a.cidrs {
		out[familyOf(p.Addr())] = []netip.Prefix{p}
	}
	for _, obj := range list {
		c, ok := obj.(*networkingv1.ServiceCIDR)
		switch {
		case !ok:
		case c.DeletionTimestamp != nil:
			if c.Name == defaultServiceCIDR {
				for _, p := range a.cidrs {
					f := familyOf(p.Addr())
					out[f] = slices.DeleteFunc(out[f], func(q netip.Prefix) bool { return p == q })
				}
			}
		case meta.IsStatusConditionTrue(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady):
			for _, text := range c.Spec.CIDRs {
				p, err := netip.ParsePrefix(text)
				f := familyOf(p.Addr())
				if have, used := out[f]; err == nil && used && !slices.Contains(have, p.Masked()) && (p.Addr().Is4() || p.Bits() >= largestFurtherIPv6) {
					out[f] = append(have, p.Masked())
				}
			}
		}
	}
	return out, nil
}

// spanOf are the addresses of a range that services can have: not the
// network's own and, of IPv4, not the broadcast address. Of a range too large
// for an int, it is those that are given to whoever names none.
func spanOf(p netip.Prefix) span {
	size := 1<<min(p.Addr().BitLen()-p.Bits(), 62) - 1
	if p.Addr().Is4() {
		size = max(0, size-1)
	}
	return span{numOf(p.Addr()).plus(1), min(max(16, size/16), 256, size), size}
}

func addressOf(n num, f corev1.IPFamily) netip.Addr {
	if f == corev1.IPv4Protocol {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n.lo))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], n.hi)
	binary.BigEndian.PutUint64(b[8:], n.lo)
	return netip.AddrFrom16(b)
}

// checkRange sees that an address may be given out, by the ranges of its
// family.
func checkRange(ip netip.Addr, ranges []netip.Prefix) error {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		if last := numOf(r.Addr()).plus(spanOf(r).size); r.Contains(ip) && ip != r.Addr() && (ip.Is6() || numOf(ip).lo <= last.lo) {
			return nil
		}
		texts[i] = r.String()
	}
	return fmt.Errorf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", ip, strings.Join(texts, ", "))
}

// reserved tells that somebody made an IPAddress which keeps the address for
// another than svc. Those that follow services say nothing that the services do
// not say themselves.
func (a *ServiceAllocator) reserved(ctx context.Context, ip netip.Addr, svc *corev1.Service) (bool, error) {
	obj, err := a.get(ctx, client.IPAddresses, "", ip.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, apierrors.NewInternalError(fmt.Errorf("read the IPAddress %s: %w", ip, err))
	}
	has, ok := obj.(*networkingv1.IPAddress)
	if !ok || has.Labels[networkingv1.LabelManagedBy] == ipAllocator {
		return false, nil
	}
	ref := has.Spec.ParentRef
	return ref == nil || ref.Group != "" || ref.Resource != "services" || ref.Namespace != svc.Namespace || ref.Name != svc.Name, nil
}
