package servicecidr_test

import (
	"fmt"
	"net/netip"
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

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{servicecidr.NewRanges(o, []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}), servicecidr.NewAddresses(o)}
}

func fileService(w *controllertest.World, name, ip string) {
	cluster := corev1.ServiceInternalTrafficPolicyCluster
	w.Create(client.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: &cluster, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}})
}

func fileRange(w *controllertest.World, name, cidr string) {
	w.Create(client.ServiceCIDRs, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}})
}

func fileAddress(w *controllertest.World, ip, service string, ours bool) {
	a := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip}, Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: service}}}
	if ours {
		a.Labels = map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"}
	}
	w.Create(client.IPAddresses, a)
}

func end(w *controllertest.World) string {
	return w.Lines(client.IPAddresses, func(obj client.Object) string {
		ref := obj.(*networkingv1.IPAddress).Spec.ParentRef
		return fmt.Sprint(obj.GetName(), " is ", ref.Resource, " ", ref.Namespace, "/", ref.Name)
	}) + w.Lines(client.ServiceCIDRs, func(obj client.Object) string {
		cidr := obj.(*networkingv1.ServiceCIDR)
		text := fmt.Sprint(cidr.Name, " ", cidr.Spec.CIDRs, " leaving=", cidr.DeletionTimestamp != nil)
		for _, c := range cidr.Status.Conditions {
			text += fmt.Sprint(" ", c.Type, "=", c.Status, " ", c.Reason)
		}
		return text
	})
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, End: end,
		Start: func(w *controllertest.World) {
			fileService(w, "web", "10.43.0.7")
			fileService(w, "db", "10.43.0.8")
			fileService(w, "headless", corev1.ClusterIPNone)
			fileAddress(w, "10.43.0.8", "gone", true) // of a service that had it before
			fileAddress(w, "10.43.0.9", "gone", true)
			fileAddress(w, "10.43.0.20", "reserved", false) // a user's
			fileRange(w, "more", "10.60.0.0/24")
		},
		Meanwhile: func(w *controllertest.World) {
			w.Rest(time.Second)
			fileService(w, "later", "10.43.0.11")
			w.Delete(client.Services, "default", "web", metav1.DeleteOptions{})
			switch w.Rand.IntN(3) {
			case 0:
				w.Delete(client.ServiceCIDRs, "", "more", metav1.DeleteOptions{})
			case 1:
				w.Delete(client.IPAddresses, "", "10.43.0.8", metav1.DeleteOptions{})
			}
		},
	})
}

// TestLeaving: a range stays while an address of it is in use, unless another
// range has the address too.
func TestLeaving(t *testing.T) {
	for name, leaves := range map[string]bool{"in use": false, "in another as well": true, "free": true} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Runs: 100, Loops: loops, End: end,
				Start: func(w *controllertest.World) {
					fileRange(w, "extra", "10.60.0.0/24")
					if name != "free" {
						fileService(w, "web", "10.60.0.7")
					}
					if name == "in another as well" {
						fileRange(w, "wide", "10.60.0.0/16")
					}
				},
				Meanwhile: func(w *controllertest.World) {
					// Every range has its finalizer, though the loop crashes and its
					// events are lost. That the address is known as an IPAddress by
					// now is not said.
					time.Sleep(5 * time.Minute)
					w.Delete(client.ServiceCIDRs, "", "extra", metav1.DeleteOptions{})
				},
				Check: func(w *controllertest.World) error {
					if gone := w.Get(client.ServiceCIDRs, "", "extra") == nil; gone != leaves {
						return fmt.Errorf("gone=%t, want %t", gone, leaves)
					}
					return nil
				},
			})
		})
	}
}

// A range that a service has an address of stays, even when the IPAddress is
// not made yet; it goes when the service goes.
func TestLeavingBeforeIPAddress(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Runs: 100, End: end,
		Loops: func(o controllers.Options) []controllers.Controller { // nobody makes it
			return []controllers.Controller{servicecidr.NewRanges(o, []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")})}
		},
		Start: func(w *controllertest.World) {
			fileRange(w, "extra", "10.60.0.0/24")
			fileService(w, "web", "10.60.0.7")
		},
		Meanwhile: func(w *controllertest.World) {
			time.Sleep(5 * time.Minute) // the range has its finalizer
			w.Delete(client.ServiceCIDRs, "", "extra", metav1.DeleteOptions{})
			time.Sleep(5 * time.Minute)
			if w.Get(client.ServiceCIDRs, "", "extra") == nil {
				w.TB.Error("the range is gone, and a service has an address of it")
			}
			w.Delete(client.Services, "default", "web", metav1.DeleteOptions{})
		},
		Check: func(w *controllertest.World) error {
			if w.Get(client.ServiceCIDRs, "", "extra") != nil {
				return fmt.Errorf("the range stays, and is free")
			}
			return nil
		},
	})
}
