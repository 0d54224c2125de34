package loadbalancer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/loadbalancer"
	"github.com/setpoint-project/setpoint/loop"
)

func fileNode(w *controllertest.World, n int, ready bool) {
	name := fmt.Sprint("n", n)
	w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	setNode(w, n, ready)
}

func setNode(w *controllertest.World, n int, ready bool) {
	w.Edit(client.Nodes, "", fmt.Sprint("n", n), func(obj client.Object) {
		node := obj.(*corev1.Node)
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("192.0.2.", n)}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		if ready {
			node.Status.Conditions[0].Status = corev1.ConditionTrue
		}
	}, "status")
}

func fileService(w *controllertest.World, name string, port int32, change ...func(*corev1.Service)) {
	cluster, nodePorts := corev1.ServiceInternalTrafficPolicyCluster, false
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: fmt.Sprint("10.43.0.", len(name)+int(port%100)), IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: &cluster, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster, AllocateLoadBalancerNodePorts: &nodePorts,
			Ports: []corev1.ServicePort{{Name: "http", Port: port, Protocol: corev1.ProtocolTCP}}}}
	svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP}
	for _, f := range change {
		f(svc)
	}
	w.Create(client.Services, svc)
	time.Sleep(time.Second) // services are of different ages
}

func pool(t *testing.T, text string) loadbalancer.Pool {
	t.Helper()
	p, err := loadbalancer.ParsePool(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// end tells where each service is; of a pool, only how many addresses it has.
func end(exact bool) func(w *controllertest.World) string {
	return func(w *controllertest.World) string {
		return w.Lines(client.Services, func(obj client.Object) string {
			svc := obj.(*corev1.Service)
			var at []string
			for _, in := range svc.Status.LoadBalancer.Ingress {
				if at = append(at, in.IP); !exact {
					at[len(at)-1] = "one"
				}
			}
			return fmt.Sprint(svc.Name, " at ", strings.Join(at, " "), " finalizers ", svc.Finalizers)
		})
	}
}

func retype(w *controllertest.World, name string) {
	w.Edit(client.Services, "default", name, func(obj client.Object) {
		spec := &obj.(*corev1.Service).Spec
		spec.Type, spec.AllocateLoadBalancerNodePorts, spec.ExternalTrafficPolicy = corev1.ServiceTypeClusterIP, nil, ""
	})
}

func TestNodesConverge(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		End: end(true),
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{loadbalancer.New(o, pool(t, "nodes"))}
		},
		Start: func(w *controllertest.World) {
			fileNode(w, 1, true)
			fileNode(w, 2, w.Rand.IntN(2) == 0)
			fileService(w, "web", 80)
			fileService(w, "second", 80) // in conflict
			fileService(w, "apart", 81)
			class := "example.test/other"
			fileService(w, "anothers", 80, func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class })
		},
		Meanwhile: func(w *controllertest.World) {
			fileNode(w, 3, true)
			setNode(w, 1, w.Rand.IntN(2) == 0)
			w.Rest(2 * time.Second)
			switch w.Rand.IntN(4) {
			case 0:
				w.Delete(client.Services, "default", "web", metav1.DeleteOptions{}) // the second gets its turn
			case 1:
				retype(w, "web")
			case 2:
				w.Edit(client.Services, "default", "second", func(obj client.Object) { obj.(*corev1.Service).Spec.Ports[0].Port = 82 })
			}
		},
	})
}

func TestPoolConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		End: end(false),
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{loadbalancer.New(o, pool(t, "198.51.100.1-198.51.100.3"))}
		},
		Start: func(w *controllertest.World) {
			fileService(w, "a", 80, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "198.51.100.2" })
			for i, name := range []string{"bb", "ccc"} {
				fileService(w, name, int32(80+i))
			}
		},
		Meanwhile: func(w *controllertest.World) {
			w.Rest(2 * time.Second)
			w.Delete(client.Services, "default", "bb", metav1.DeleteOptions{})
			fileService(w, "dddd", 80)
			retype(w, "a")
			fileService(w, "eeeee", 80)
			fileService(w, "outside", 90, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "198.51.100.9" })
		},
		Check: func(w *controllertest.World) error {
			owner := map[string]string{}
			for _, obj := range w.List(client.Services) {
				for _, in := range obj.(*corev1.Service).Status.LoadBalancer.Ingress {
					if other := owner[in.IP]; other != "" {
						return fmt.Errorf("%s and %s are both at %s", other, obj.GetName(), in.IP)
					}
					owner[in.IP] = obj.GetName()
				}
			}
			if len(owner) != 3 {
				return fmt.Errorf("addresses in use: %v", owner)
			}
			return nil
		},
	})
}

// TestWaits: what stands in the way is told, and whose it is.
func TestWaits(t *testing.T) {
	told := map[string]string{}
	controllertest.Run(t, controllertest.Case{
		Runs: 1, Single: true, End: func(*controllertest.World) string { return "" },
		Loops: func(o controllers.Options) []controllers.Controller {
			o.Observer = func(_ string, key loop.Key, out loop.Outcome, _ error) { told[key.Name] = out.On + ": " + out.Reason }
			return []controllers.Controller{loadbalancer.New(o, pool(t, ""))}
		},
		Start: func(w *controllertest.World) {
			fileNode(w, 1, true)
			fileService(w, "web", 80)
			fileService(w, "second", 80)
			fileService(w, "lonely", 81, func(s *corev1.Service) {
				s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30333
			})
		},
		Meanwhile: func(w *controllertest.World) { time.Sleep(time.Minute) },
		Check: func(*controllertest.World) error {
			for name, want := range map[string]string{
				"second": "Service default/web: it is older and has port 80/TCP at 192.0.2.1",
				"lonely": "endpoints of the service: no node has one that is ready, and its traffic is to stay on a node",
			} {
				if told[name] != want {
					return fmt.Errorf("%s waits for %q, want %q", name, told[name], want)
				}
			}
			return nil
		},
	})
}

func TestParsePool(t *testing.T) {
	for _, text := range []string{"", "nodes", "none", "192.0.2.1", "192.0.2.16/28,192.0.2.40-192.0.2.50", " 192.0.2.1 , 192.0.2.2", "2001:db8::/108", "2001:db8::10-2001:db8::20,192.0.2.1"} {
		if _, err := loadbalancer.ParsePool(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"all", "192.0.2.1-", "192.0.2.9-192.0.2.1", "10.0.0.0/8", "2001:db8::/64", "2001:db8::/107", "192.0.2.1-2001:db8::1", "::ffff:192.0.2.1", "fe80::1%eth0", "2001:db8::/120,2001:db8::7", "192.0.2.0/24,192.0.2.7", "192.0.2.1,,"} {
		if p, err := loadbalancer.ParsePool(text); err == nil {
			t.Errorf("%q: read as %v", text, p)
		}
	}
}

// TestDualStackConverges: services whose families come and go while there are
// just as many addresses as are wanted.
func TestDualStackConverges(t *testing.T) {
	both := func(first, second string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			require := corev1.IPFamilyPolicyRequireDualStack
			s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilyPolicy = first, []string{first, second}, &require
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		}
	}
	controllertest.Run(t, controllertest.Case{
		Runs: 40, End: end(false),
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{loadbalancer.New(o, pool(t, "198.51.100.1-198.51.100.3,2001:db8::1-2001:db8::2"))}
		},
		Start: func(w *controllertest.World) {
			fileService(w, "a", 80, both("10.43.0.81", "fd00::81"))
			fileService(w, "bb", 80, both("10.43.0.82", "fd00::82"))
			fileService(w, "ccc", 80, both("10.43.0.83", "fd00::83")) // no address of IPv6 is left
		},
		Meanwhile: func(w *controllertest.World) {
			w.Rest(2 * time.Second)
			switch w.Rand.IntN(3) {
			case 0:
				w.Delete(client.Services, "default", "bb", metav1.DeleteOptions{})
			case 1:
				retype(w, "a")
			case 2:
				w.Edit(client.Services, "default", "a", func(obj client.Object) {
					single, spec := corev1.IPFamilyPolicySingleStack, &obj.(*corev1.Service).Spec
					spec.IPFamilyPolicy, spec.ClusterIPs, spec.IPFamilies = &single, spec.ClusterIPs[:1], spec.IPFamilies[:1]
				})
			}
		},
		Check: func(w *controllertest.World) error {
			owner := map[string]string{}
			for _, obj := range w.List(client.Services) {
				svc := obj.(*corev1.Service)
				if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && len(svc.Status.LoadBalancer.Ingress) != len(svc.Spec.IPFamilies) {
					return fmt.Errorf("%s has %v", svc.Name, svc.Status.LoadBalancer.Ingress)
				}
				for _, in := range svc.Status.LoadBalancer.Ingress {
					if other := owner[in.IP]; other != "" {
						return fmt.Errorf("%s and %s are both at %s", other, svc.Name, in.IP)
					}
					owner[in.IP] = svc.Name
				}
			}
			return nil
		},
	})
}
