package endpointslicemirroring_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslicemirroring"
	"github.com/setpoint-project/setpoint/loop"
)

func fileService(w *controllertest.World, name string, selector map[string]string) {
	w.Create(client.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			SessionAffinity: corev1.ServiceAffinityNone, Selector: selector, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}})
}

// subset has addresses 192.0.2.from and on; the last is not ready.
func subset(port int32, from, n int) corev1.EndpointSubset {
	s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "p", Port: port, Protocol: corev1.ProtocolTCP}}}
	for i := range n {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("192.%d.2.%d", (from+i)/250, (from+i)%250+1), Hostname: fmt.Sprint("h", from+i)})
	}
	s.NotReadyAddresses, s.Addresses = s.Addresses[n-1:], s.Addresses[:n-1]
	return s
}

func fileEndpoints(w *controllertest.World, name string, labels, annotations map[string]string, subsets ...corev1.EndpointSubset) {
	w.Create(client.Endpoints, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels, Annotations: annotations}, Subsets: subsets})
}

func end(w *controllertest.World) string {
	return w.Lines(client.EndpointSlices, func(obj client.Object) string {
		s := obj.(*discoveryv1.EndpointSlice)
		var list []string
		for _, e := range s.Endpoints {
			list = append(list, fmt.Sprintf("%s(%s) %t", e.Addresses[0], *e.Hostname, *e.Conditions.Ready))
		}
		slices.Sort(list)
		return fmt.Sprintf("%s of %s:%d %s [%s] %s", s.AddressType, s.Labels[discoveryv1.LabelServiceName], *s.Ports[0].Port, s.Labels["mine"], s.Annotations["note"], strings.Join(list, ", "))
	})
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		End: end,
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{endpointslicemirroring.New(o)}
		},
		Start: func(w *controllertest.World) {
			fileService(w, "hand", nil)
			fileEndpoints(w, "hand", map[string]string{"mine": "yes"}, map[string]string{"note": "a"}, subset(80, 1, 3), subset(81, 10, 2), subset(80, 20, 2))
			fileService(w, "selects", map[string]string{"app": "a"})
			fileEndpoints(w, "selects", nil, nil, subset(80, 30, 2))
			fileEndpoints(w, "alone", nil, nil, subset(80, 40, 2)) // no service, yet
			fileService(w, "skipped", nil)
			fileEndpoints(w, "skipped", map[string]string{discoveryv1.LabelSkipMirror: "true"}, nil, subset(80, 50, 2))
			fileService(w, "lock", nil)
			fileEndpoints(w, "lock", nil, map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}, subset(80, 60, 2))
		},
		Meanwhile: func(w *controllertest.World) {
			w.Rest(time.Second)
			fileService(w, "alone", nil)
			w.Edit(client.Endpoints, "default", "hand", func(obj client.Object) {
				ep := obj.(*corev1.Endpoints)
				ep.Annotations = map[string]string{"note": "b"}
				ep.Subsets = []corev1.EndpointSubset{subset(80, 2, 4)}
			})
			switch w.Rand.IntN(4) {
			case 0:
				w.Delete(client.Endpoints, "default", "hand", metav1.DeleteOptions{})
			case 1:
				w.Delete(client.Services, "default", "hand", metav1.DeleteOptions{})
			case 2:
				w.Edit(client.Services, "default", "hand", func(obj client.Object) { obj.(*corev1.Service).Spec.Selector = map[string]string{"app": "x"} })
			case 3:
				w.Edit(client.Services, "default", "selects", func(obj client.Object) { obj.(*corev1.Service).Spec.Selector = nil })
			}
		},
	})
}

// TestLimit: a thousand addresses are mirrored, and the rest is told.
func TestLimit(t *testing.T) {
	var told string
	controllertest.Run(t, controllertest.Case{
		Runs: 1, Single: true,
		Loops: func(o controllers.Options) []controllers.Controller {
			o.Observer = func(_ string, key loop.Key, out loop.Outcome, _ error) { told = out.Reason }
			return []controllers.Controller{endpointslicemirroring.New(o)}
		},
		Start: func(w *controllertest.World) {
			fileService(w, "many", nil)
			fileEndpoints(w, "many", nil, nil, subset(80, 1, 1003))
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.EndpointSlices, func(obj client.Object) string { return fmt.Sprint(len(obj.(*discoveryv1.EndpointSlice).Endpoints)) })
		},
		Check: func(w *controllertest.World) error {
			if want := "3 addresses are beyond the 1000 that are mirrored"; told != want {
				return fmt.Errorf("told %q, want %q", told, want)
			}
			return nil
		},
	})
}
