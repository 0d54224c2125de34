package endpointslicemirroring_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslicemirroring"
)

// mixed is a subset with addresses of both families.
func mixed(port int32, from, n int) corev1.EndpointSubset {
	s := subset(port, from, n)
	for i := range n {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: fmt.Sprint("2001:db8::", from+i), Hostname: fmt.Sprint("six", from+i)})
	}
	return s
}

// TestConvergesDualStack: addresses of both families are mirrored, each into
// slices of its family, as they come and go, whatever families the service says
// that it has.
func TestConvergesDualStack(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Runs: 40, End: end,
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{endpointslicemirroring.New(o)}
		},
		Start: func(w *controllertest.World) {
			fileService(w, "hand", nil)
			fileEndpoints(w, "hand", nil, nil, mixed(80, 1, 3), mixed(81, 10, 2))
			fileService(w, "four", nil)
			fileEndpoints(w, "four", nil, nil, subset(80, 20, 2))
		},
		Meanwhile: func(w *controllertest.World) {
			w.Rest(time.Second)
			set := func(name string, subsets ...corev1.EndpointSubset) {
				w.Edit(client.Endpoints, "default", name, func(obj client.Object) { obj.(*corev1.Endpoints).Subsets = subsets })
			}
			set("four", mixed(80, 20, 2)) // gets a second family
			switch w.Rand.IntN(3) {
			case 0:
				set("hand", subset(80, 1, 3)) // loses one
			case 1:
				only := mixed(80, 2, 3)
				only.Addresses, only.NotReadyAddresses = only.Addresses[2:], nil
				set("hand", only) // loses the other
			}
		},
		Check: func(w *controllertest.World) error {
			want, have := map[string]bool{}, map[string]bool{}
			for _, obj := range w.List(client.Endpoints) {
				for _, s := range obj.(*corev1.Endpoints).Subsets {
					for _, list := range [][]corev1.EndpointAddress{s.Addresses, s.NotReadyAddresses} {
						for _, a := range list {
							want[fmt.Sprint(obj.GetName(), " ", a.IP, " ", s.Ports[0].Port)] = true
						}
					}
				}
			}
			for _, obj := range w.List(client.EndpointSlices) {
				slice := obj.(*discoveryv1.EndpointSlice)
				if len(slice.Endpoints) == 0 {
					return fmt.Errorf("slice %s is empty", slice.Name)
				}
				for _, e := range slice.Endpoints {
					have[fmt.Sprint(slice.Labels[discoveryv1.LabelServiceName], " ", e.Addresses[0], " ", *slice.Ports[0].Port)] = true
					if netip.MustParseAddr(e.Addresses[0]).Is6() != (slice.AddressType == discoveryv1.AddressTypeIPv6) {
						return fmt.Errorf("%s in a slice of %s", e.Addresses[0], slice.AddressType)
					}
				}
			}
			if len(have) != len(want) {
				return fmt.Errorf("%d addresses are mirrored, want %d: %v", len(have), len(want), have)
			}
			for key := range want {
				if !have[key] {
					return fmt.Errorf("%s is not mirrored", key)
				}
			}
			return nil
		},
	})
}
