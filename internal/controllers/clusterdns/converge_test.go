package clusterdns_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/clusterdns"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/dns/feed"
)

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{clusterdns.New(o, []netip.Addr{netip.MustParseAddr("10.43.0.10"), netip.MustParseAddr("fd00:43::a")})}
}

func fileNode(w *controllertest.World, n int, serves bool) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}
	if serves {
		node.Annotations = map[string]string{feed.Annotation: at(n)}
	}
	w.Create(client.Nodes, node)
}

func at(n int) string { return fmt.Sprintf("10.42.%d.1:10053,[fd00:42:0:%[1]x::1]:10053", n) }

func silence(w *controllertest.World, n int, status corev1.ConditionStatus) {
	w.Edit(client.Nodes, "", fmt.Sprint("n", n), func(obj client.Object) {
		obj.(*corev1.Node).Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	}, "status")
}

func end(w *controllertest.World) string {
	return w.Lines(client.Services, func(obj client.Object) string {
		svc := obj.(*corev1.Service)
		var ports []string
		for _, p := range svc.Spec.Ports {
			ports = append(ports, fmt.Sprint(p.Name, " ", p.Port, "/", p.Protocol))
		}
		return fmt.Sprint(svc.Namespace, "/", svc.Name, " ", svc.Spec.ClusterIPs, " ", strings.Join(ports, ", "), " ", svc.Spec.Selector)
	}) + w.Lines(client.EndpointSlices, func(obj client.Object) string {
		var list []string
		for _, e := range obj.(*discoveryv1.EndpointSlice).Endpoints {
			list = append(list, fmt.Sprintf("%s for %s ready=%t", e.Addresses[0], e.Hints.ForNodes[0].Name, *e.Conditions.Ready))
		}
		return strings.Join(list, ", ")
	})
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, End: end,
		Start: func(w *controllertest.World) {
			for n := range 2 + w.Rand.IntN(3) {
				fileNode(w, n, n != 1)
			}
			if w.Rand.IntN(2) == 0 { // of a life whose service has gone
				port := int32(1)
				w.Create(client.EndpointSlices, &discoveryv1.EndpointSlice{
					ObjectMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns-10053", Labels: map[string]string{discoveryv1.LabelManagedBy: "clusterdns.setpoint.dev"}},
					AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}}})
			}
		},
		Meanwhile: func(w *controllertest.World) {
			fileNode(w, 7, true)
			silence(w, 0, corev1.ConditionUnknown)
			w.Rest(time.Second)
			switch w.Rand.IntN(4) {
			case 0:
				w.Delete(client.Nodes, "", "n0", metav1.DeleteOptions{})
			case 1:
				silence(w, 0, corev1.ConditionFalse)
			case 2:
				w.Edit(client.Nodes, "", "n7", func(obj client.Object) { obj.SetAnnotations(nil) })
			case 3:
				w.Delete(client.Services, "kube-system", "kube-dns", metav1.DeleteOptions{})
			}
		},
	})
}

// TestAnothers: a service that somebody has taken over, or made under the name,
// is his, and our endpoints go from it.
func TestAnothers(t *testing.T) {
	selector := map[string]string{"k8s-app": "kube-dns"}
	for name, take := range map[string]func(w *controllertest.World){
		"given a selector": func(w *controllertest.World) {
			w.Rest(10 * time.Second)
			w.Edit(client.Services, "kube-system", "kube-dns", func(obj client.Object) { obj.(*corev1.Service).Spec.Selector = selector })
		},
		"made first": func(w *controllertest.World) {},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Runs: 50, Loops: loops,
				Start: func(w *controllertest.World) {
					if name == "made first" {
						fileService(w, "kube-dns", selector)
					}
					fileNode(w, 0, true)
				},
				Meanwhile: func(w *controllertest.World) {
					if name == "given a selector" {
						for w.Get(client.Services, "kube-system", "kube-dns") == nil {
							time.Sleep(time.Second)
						}
					}
					take(w)
				},
				End: end,
				Check: func(w *controllertest.World) error {
					svc := w.Get(client.Services, "kube-system", "kube-dns").(*corev1.Service)
					if svc.Spec.Selector["k8s-app"] == "" {
						return fmt.Errorf("the selector is %v", svc.Spec.Selector)
					}
					if n := len(w.List(client.EndpointSlices)); n != 0 {
						return fmt.Errorf("%d slices of ours", n)
					}
					return nil
				},
			})
		})
	}
}

func fileService(w *controllertest.World, name string, selector map[string]string) {
	cluster := corev1.ServiceInternalTrafficPolicyCluster
	w.Create(client.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.43.0.10", ClusterIPs: []string{"10.43.0.10"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: &cluster, Selector: selector,
			Ports: []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}}})
}

// TestSecondFamily: a cluster that was of one family, and its nodes of one, has
// servers and a service of both once it is given a second.
func TestSecondFamily(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Runs: 50, Loops: loops, End: end,
		Start: func(w *controllertest.World) {
			fileService(w, "kube-dns", nil)
			w.Edit(client.Services, "kube-system", "kube-dns", func(obj client.Object) {
				obj.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "clusterdns.setpoint.dev"})
			})
			w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n9", Annotations: map[string]string{feed.Annotation: "10.42.9.1:10053"}}})
			fileNode(w, 0, true)
		},
		Check: func(w *controllertest.World) error {
			svc := w.Get(client.Services, "kube-system", "kube-dns").(*corev1.Service)
			if got, want := fmt.Sprint(svc.Spec.ClusterIPs, svc.Spec.IPFamilies), "[10.43.0.10 fd00:43::a] [IPv4 IPv6]"; got != want {
				return fmt.Errorf("the service has %s, want %s", got, want)
			}
			endpoints := map[discoveryv1.AddressType]int{}
			for _, obj := range w.List(client.EndpointSlices) {
				s := obj.(*discoveryv1.EndpointSlice)
				endpoints[s.AddressType] += len(s.Endpoints)
			}
			if endpoints[discoveryv1.AddressTypeIPv4] != 2 || endpoints[discoveryv1.AddressTypeIPv6] != 1 {
				return fmt.Errorf("the endpoints are %v", endpoints)
			}
			return nil
		},
	})
}

// TestAddresses: the tenth of each range that has one.
func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{"10.43.0.0/16": "10.43.0.10", "192.168.7.16/28": "192.168.7.26", "10.0.0.0/29": "", "10.0.0.0/30": "", "fd00:43::/108": "fd00:43::a"} {
		got := clusterdns.Addresses([]netip.Prefix{netip.MustParsePrefix(text)})
		if len(got) > 1 || (len(got) == 1) != (want != "") || want != "" && got[0].String() != want {
			t.Errorf("%s: %v, want %q", text, got, want)
		}
	}
	got := clusterdns.Addresses([]netip.Prefix{netip.MustParsePrefix("fd00:43::/108"), netip.MustParsePrefix("10.0.0.0/29"), netip.MustParsePrefix("10.43.0.0/16")})
	if fmt.Sprint(got) != "[fd00:43::a 10.43.0.10]" {
		t.Errorf("of several: %v", got)
	}
}
