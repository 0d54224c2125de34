package servicecidr_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/servicecidr"
)

func dualLoops(o controllers.Options) []controllers.Controller {
	ranges := []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16"), netip.MustParsePrefix("fd00:43::/112")}
	return []controllers.Controller{servicecidr.NewRanges(o, ranges), servicecidr.NewAddresses(o)}
}

// fileDual files a service with an address of each family.
func fileDual(w *controllertest.World, name, first, second string) {
	both, cluster := corev1.IPFamilyPolicyRequireDualStack, corev1.ServiceInternalTrafficPolicyCluster
	families := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	if netip.MustParseAddr(first).Is6() {
		slices.Reverse(families)
	}
	w.Create(client.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: first, ClusterIPs: []string{first, second}, IPFamilies: families, IPFamilyPolicy: &both,
			SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: &cluster, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}})
}

// release takes the second address from a service.
func release(w *controllertest.World, name string) {
	w.Edit(client.Services, "default", name, func(obj client.Object) {
		one := corev1.IPFamilyPolicySingleStack
		spec := &obj.(*corev1.Service).Spec
		spec.IPFamilyPolicy, spec.ClusterIPs, spec.IPFamilies = &one, spec.ClusterIPs[:1], spec.IPFamilies[:1]
	})
}

// TestConvergesDualStack: addresses of both families are shown, by the one name
// that each has, however the service spells it; the range of the cluster gets
// its second family, whether its ServiceCIDR was made before or not.
func TestConvergesDualStack(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Runs: 40, Loops: dualLoops, End: end,
		Start: func(w *controllertest.World) {
			if w.Rand.IntN(2) == 0 {
				w.Create(client.ServiceCIDRs, &networkingv1.ServiceCIDR{
					ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Finalizers: []string{"networking.k8s.io/service-cidr-finalizer"}},
					Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.43.0.0/16"}}})
			}
			fileDual(w, "web", "10.43.0.7", "FD00:43:0::7")
			fileDual(w, "db", "fd00:43::8", "10.43.0.8")
			fileService(w, "old", "10.43.0.9")
			fileAddress(w, "fd00:43::8", "gone", true) // of a service that had it before
			fileAddress(w, "fd00:43::99", "gone", true)
			fileAddress(w, "fd00:43::20", "reserved", false) // a user's
			fileRange(w, "more", "fd00:60::/64")
		},
		Meanwhile: func(w *controllertest.World) {
			w.Rest(time.Second)
			fileDual(w, "later", "10.43.0.11", "fd00:43::11")
			release(w, "web")
			switch w.Rand.IntN(3) {
			case 0:
				w.Delete(client.ServiceCIDRs, "", "more", metav1.DeleteOptions{})
			case 1:
				w.Delete(client.IPAddresses, "", "fd00:43::8", metav1.DeleteOptions{})
			}
		},
		Check: func(w *controllertest.World) error {
			for ip, want := range map[string]bool{"10.43.0.7": true, "fd00:43::7": false, "fd00:43::8": true, "10.43.0.8": true, "fd00:43::99": false, "fd00:43::20": true, "fd00:43::11": true} {
				obj, _ := w.Get(client.IPAddresses, "", ip).(*networkingv1.IPAddress)
				if (obj != nil) != want {
					return fmt.Errorf("IPAddress %s: %v, want %t", ip, obj, want)
				}
				if obj == nil || ip == "fd00:43::20" {
					continue
				}
				if family := obj.Labels[networkingv1.LabelIPAddressFamily]; (family == "IPv6") != netip.MustParseAddr(ip).Is6() {
					return fmt.Errorf("IPAddress %s is said to be of %s", ip, family)
				}
			}
			if cidrs := w.Get(client.ServiceCIDRs, "", "kubernetes").(*networkingv1.ServiceCIDR).Spec.CIDRs; !slices.Equal(cidrs, []string{"10.43.0.0/16", "fd00:43::/112"}) {
				return fmt.Errorf("the cluster's range is %v", cidrs)
			}
			return nil
		},
	})
}

// A range goes when the last service gives its second address in it up.
func TestLeavingByRelease(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Runs: 10, End: end,
		Loops: func(o controllers.Options) []controllers.Controller { // nobody makes IPAddresses
			return []controllers.Controller{servicecidr.NewRanges(o, []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16"), netip.MustParsePrefix("fd00:43::/112")})}
		},
		Start: func(w *controllertest.World) {
			fileRange(w, "extra", "fd00:60::/64")
			fileDual(w, "web", "10.43.0.7", "fd00:60::7")
		},
		Meanwhile: func(w *controllertest.World) {
			time.Sleep(5 * time.Minute) // the range has its finalizer
			w.Delete(client.ServiceCIDRs, "", "extra", metav1.DeleteOptions{})
			time.Sleep(5 * time.Minute)
			if w.Get(client.ServiceCIDRs, "", "extra") == nil {
				w.TB.Error("the range is gone, and a service has an address of it")
			}
			release(w, "web")
		},
		Check: func(w *controllertest.World) error {
			if w.Get(client.ServiceCIDRs, "", "extra") != nil {
				return fmt.Errorf("the range stays, and is free")
			}
			return nil
		},
	})
}
