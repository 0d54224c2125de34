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

// defaultServiceCIDR names the ServiceCIDR of the range that the cluster was
// made with; ipAllocator marks the IPAddresses that follow services.
const (
	defaultServiceCIDR = "kubernetes"
	ipAllocator        = "ipallocator.k8s.io"
)

// ranges are where addresses are given out from, the one that the cluster was
// made with first. It is one of them until its ServiceCIDR is being deleted, the
// others once they are ready.
func (a *ServiceAllocator) ranges(ctx context.Context) ([]netip.Prefix, error) {
	list, err := a.list(ctx, client.ServiceCIDRs, "")
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("read the ranges of service addresses: %w", err))
	}
	slices.SortFunc(list, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	out := []netip.Prefix{a.cidr}
	for _, obj := range list {
		c, ok := obj.(*networkingv1.ServiceCIDR)
		switch {
		case !ok:
		case c.DeletionTimestamp != nil:
			if c.Name == defaultServiceCIDR {
				out = slices.DeleteFunc(out, func(p netip.Prefix) bool { return p == a.cidr })
			}
		case meta.IsStatusConditionTrue(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady):
			for _, text := range c.Spec.CIDRs {
				p, err := netip.ParsePrefix(text)
				if err != nil || !p.Addr().Is4() || slices.Contains(out, p.Masked()) {
					continue
				}
				out = append(out, p.Masked())
			}
		}
	}
	return out, nil
}

// spanOf are the addresses of a range that services can have: not the
// network's own and not the broadcast address.
func spanOf(p netip.Prefix) span {
	first, size := int(toUint(p.Addr()))+1, max(0, 1<<(32-p.Bits())-2)
	return span{first, min(max(16, size/16), 256, size), first + size}
}

func toUint(ip netip.Addr) uint32 {
	if !ip.Is4() {
		return 0
	}
	b := ip.As4()
	return binary.BigEndian.Uint32(b[:])
}

func address(n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	return netip.AddrFrom4(b)
}

// checkRange sees that an address may be given out.
func checkRange(ip netip.Addr, ranges []netip.Prefix) error {
	n := int(toUint(ip))
	for _, r := range ranges {
		if s := spanOf(r); ip.Is4() && n >= s.first && n < s.end {
			return nil
		}
	}
	texts := make([]string, len(ranges))
	for i := range ranges {
		texts[i] = ranges[i].String()
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
