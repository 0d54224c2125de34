package systemobjects_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/systemobjects"
)

var server = systemobjects.Server{
	Addresses: []netip.Addr{netip.MustParseAddr("10.42.0.1")}, Port: 6443, ServiceIP: netip.MustParseAddr("10.43.0.1"),
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func end(w *controllertest.World) string {
	name := func(obj client.Object) string { return obj.GetName() }
	return w.Lines(client.Namespaces, name) +
		w.Lines(client.Services, func(obj client.Object) string { return text(obj.(*corev1.Service).Spec) }) +
		w.Lines(client.Endpoints, func(obj client.Object) string { return text(obj.(*corev1.Endpoints).Subsets) }) +
		w.Lines(client.EndpointSlices, func(obj client.Object) string {
			s := obj.(*discoveryv1.EndpointSlice)
			return text(s.Endpoints) + text(s.Ports) + text(s.Labels)
		})
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{systemobjects.New(o, server)}
		},
		Start: func(w *controllertest.World) {
			if w.Rand.IntN(2) == 0 { // of an earlier start at another address
				port := int32(1)
				w.Create(client.EndpointSlices, &discoveryv1.EndpointSlice{
					ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
					AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
					Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}},
				})
			}
		},
		Meanwhile: func(w *controllertest.World) {
			w.Rest(3e9)
			w.Delete(client.Services, "default", "kubernetes", metav1.DeleteOptions{})
			w.Rest(3e9)
			w.Delete(client.Endpoints, "default", "kubernetes", metav1.DeleteOptions{})
		},
		End: end,
	})
}

// TestFamilies: the service and its endpoints are of the primary family alone,
// whatever addresses the servers have.
func TestFamilies(t *testing.T) {
	for ip, want := range map[string]string{"10.43.0.1": "10.42.0.1", "fd00:43::1": "fd00:42::1"} {
		s := server
		s.ServiceIP = netip.MustParseAddr(ip)
		s.Addresses = []netip.Addr{netip.MustParseAddr("10.42.0.1"), netip.MustParseAddr("fd00:42::1")}
		controllertest.Run(t, controllertest.Case{
			Runs: 2, End: end,
			Loops: func(o controllers.Options) []controllers.Controller {
				return []controllers.Controller{systemobjects.New(o, s)}
			},
			Start: func(w *controllertest.World) {},
			Check: func(w *controllertest.World) error {
				svc := w.Get(client.Services, "default", "kubernetes").(*corev1.Service)
				slice := w.Get(client.EndpointSlices, "default", "kubernetes").(*discoveryv1.EndpointSlice)
				ep := w.Get(client.Endpoints, "default", "kubernetes").(*corev1.Endpoints)
				if len(svc.Spec.ClusterIPs) != 1 || svc.Spec.ClusterIP != ip || string(svc.Spec.IPFamilies[0]) != string(slice.AddressType) {
					return fmt.Errorf("service %v, slice of %s", svc.Spec, slice.AddressType)
				}
				if len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != want || len(ep.Subsets[0].Addresses) != 1 || ep.Subsets[0].Addresses[0].IP != want {
					return fmt.Errorf("endpoints %v and %v, want %s", slice.Endpoints, ep.Subsets, want)
				}
				return nil
			},
		})
	}
}
