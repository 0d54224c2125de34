package systemobjects_test

import (
	"encoding/json"
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
