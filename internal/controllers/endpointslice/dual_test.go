package endpointslice_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/endpoints"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslice"
)

// setFamilies gives a headless service its families.
func setFamilies(w *controllertest.World, name string, families ...corev1.IPFamily) {
	policy := corev1.IPFamilyPolicySingleStack
	if len(families) == 2 {
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	w.Edit(client.Services, "default", name, func(obj client.Object) {
		spec := &obj.(*corev1.Service).Spec
		spec.IPFamilies, spec.IPFamilyPolicy = families, &policy
	})
}

// TestConvergesDualStack: each family that a service has, and no other, has its
// slices, whichever it had before; Endpoints are of the first family. Pods of a
// node from before the cluster had two families are in those of theirs.
func TestConvergesDualStack(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	both := func(w *controllertest.World, name, ipv6 string) {
		setPod(w, name, func(st *corev1.PodStatus) { st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: ipv6}) })
	}
	controllertest.Run(t, controllertest.Case{
		Runs: 60, End: end,
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{endpointslice.New(o), endpoints.New(o)}
		},
		Start: func(w *controllertest.World) {
			fileService(w, "web", 80)
			setFamilies(w, "web", v4, v6)
			fileService(w, "api", 8080)
			for i := range 4 {
				filePod(w, "web", i)
				if i != 2 { // its node has one family
					both(w, fmt.Sprint("web-", i), fmt.Sprint("fd00:3::", i+1))
				}
				filePod(w, "api", i)
				both(w, fmt.Sprint("api-", i), fmt.Sprint("fd00:4::", i+1))
			}
		},
		Meanwhile: func(w *controllertest.World) {
			w.Rest(time.Second)
			switch w.Rand.IntN(4) {
			case 0:
				setFamilies(w, "web", v4)
			case 1:
				setFamilies(w, "web", v6)
			case 2:
				setFamilies(w, "web", v6, v4)
			}
			w.Rest(time.Second)
			if w.Rand.IntN(2) == 0 {
				setFamilies(w, "api", v6, v4)
			} else {
				setFamilies(w, "api", v6)
			}
			w.Rest(time.Second)
			setPod(w, "web-0", func(st *corev1.PodStatus) { st.Conditions[0].Status = corev1.ConditionFalse })
		},
		Check: func(w *controllertest.World) error {
			for _, obj := range w.List(client.Services) {
				svc := obj.(*corev1.Service)
				have := map[corev1.IPFamily]int{}
				for _, obj := range w.List(client.EndpointSlices) {
					slice := obj.(*discoveryv1.EndpointSlice)
					if slice.Labels[discoveryv1.LabelServiceName] != svc.Name {
						continue
					}
					family := corev1.IPFamily(slice.AddressType)
					if !slices.Contains(svc.Spec.IPFamilies, family) {
						return fmt.Errorf("%s has %v, and a slice of %s", svc.Name, svc.Spec.IPFamilies, family)
					}
					for _, ep := range slice.Endpoints {
						have[family]++
						if netip.MustParseAddr(ep.Addresses[0]).Is6() != (family == v6) {
							return fmt.Errorf("%s in a slice of %s", ep.Addresses[0], family)
						}
					}
				}
				for _, family := range svc.Spec.IPFamilies {
					want := 4
					if svc.Name == "web" && family == v6 {
						want = 3
					}
					if have[family] != want {
						return fmt.Errorf("%s has %d endpoints of %s, want %d", svc.Name, have[family], family, want)
					}
				}
				ep := w.Get(client.Endpoints, "default", svc.Name).(*corev1.Endpoints)
				for _, subset := range ep.Subsets {
					for _, a := range slices.Concat(subset.Addresses, subset.NotReadyAddresses) {
						if netip.MustParseAddr(a.IP).Is6() != (svc.Spec.IPFamilies[0] == v6) {
							return fmt.Errorf("Endpoints of %s, which has %v, have %s", svc.Name, svc.Spec.IPFamilies, a.IP)
						}
					}
				}
			}
			return nil
		},
	})
}
