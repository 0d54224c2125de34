package endpointslice_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/endpoints"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslice"
)

func fileService(w *controllertest.World, name string, port int32) {
	w.Create(client.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			SessionAffinity: corev1.ServiceAffinityNone, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "http", Port: port, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(port)}}}})
}

func filePod(w *controllertest.World, app string, n int) {
	name := fmt.Sprintf("%s-%d", app, n)
	w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "app"}}}})
	setPod(w, name, func(st *corev1.PodStatus) {
		st.Phase, st.PodIP = corev1.PodRunning, fmt.Sprintf("10.42.%d.%d", len(app), n+1)
		st.PodIPs = []corev1.PodIP{{IP: st.PodIP}}
		st.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
}

func setPod(w *controllertest.World, name string, change func(*corev1.PodStatus)) {
	w.Edit(client.Pods, "default", name, func(obj client.Object) { change(&obj.(*corev1.Pod).Status) }, "status")
}

// end writes down each service's endpoints, however they are cut into slices.
func end(w *controllertest.World) string {
	var lines []string
	for _, obj := range w.List(client.EndpointSlices) {
		slice := obj.(*discoveryv1.EndpointSlice)
		for _, ep := range slice.Endpoints {
			lines = append(lines, fmt.Sprintf("%s %s:%d ready=%v", slice.Labels[discoveryv1.LabelServiceName], ep.Addresses[0], *slice.Ports[0].Port, *ep.Conditions.Ready))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n" + w.Lines(client.Endpoints, func(obj client.Object) string {
		return fmt.Sprint(obj.GetName(), " ", len(obj.(*corev1.Endpoints).Subsets))
	})
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		End: end,
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{endpointslice.New(o), endpoints.New(o)}
		},
		Start: func(w *controllertest.World) {
			fileService(w, "web", 80)
			fileService(w, "api", 8080)
			for i := range 1 + w.Rand.IntN(6) {
				filePod(w, "web", i)
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range 3 {
				filePod(w, "api", i)
				w.Rest(time.Second)
			}
			setPod(w, "web-0", func(st *corev1.PodStatus) { st.Conditions[0].Status = corev1.ConditionFalse })
			w.Delete(client.Pods, "default", "web-1", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			switch w.Rand.IntN(4) {
			case 0:
				w.Edit(client.Services, "default", "api", func(obj client.Object) { obj.(*corev1.Service).Spec.Ports[0].TargetPort = intstr.FromInt32(9090) })
			case 1:
				w.Edit(client.Services, "default", "api", func(obj client.Object) { obj.(*corev1.Service).Spec.Selector = map[string]string{"app": "web"} })
			case 2:
				w.Edit(client.Pods, "default", "api-1", func(obj client.Object) { obj.SetLabels(map[string]string{"app": "web"}) })
			}
		},
		Check: func(w *controllertest.World) error {
			seen := map[string]bool{}
			for _, obj := range w.List(client.EndpointSlices) {
				slice := obj.(*discoveryv1.EndpointSlice)
				for _, ep := range slice.Endpoints {
					if key := slice.Labels[discoveryv1.LabelServiceName] + ep.Addresses[0]; seen[key] {
						return fmt.Errorf("%s is there twice", key)
					} else {
						seen[key] = true
					}
				}
			}
			if len(w.List(client.EndpointSlices)) != 2 {
				return fmt.Errorf("%d slices, want 2", len(w.List(client.EndpointSlices)))
			}
			return nil
		},
	})
}

// Endpoints are spread over zones as nodes come, grow and fall silent.
func TestSpreadConverges(t *testing.T) {
	node := func(w *controllertest.World, name, zone, cpu string) {
		w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}})
		setNode(w, name, func(st *corev1.NodeStatus) {
			st.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
			st.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		})
	}
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{endpointslice.New(o)}
		},
		Start: func(w *controllertest.World) {
			node(w, "n", "a", "4")
			node(w, "m", "b", "4")
			fileService(w, "web", 80)
			w.Edit(client.Services, "default", "web", func(obj client.Object) {
				obj.SetAnnotations(map[string]string{corev1.AnnotationTopologyMode: "Auto"})
			})
			for i := range 6 + w.Rand.IntN(6) {
				filePod(w, "web", i)
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for range 3 {
				switch w.Rand.IntN(4) {
				case 0:
					cpu := resource.MustParse(fmt.Sprint(1 + w.Rand.IntN(8)))
					setNode(w, "m", func(st *corev1.NodeStatus) { st.Allocatable[corev1.ResourceCPU] = cpu })
				case 1:
					setNode(w, "m", func(st *corev1.NodeStatus) { st.Conditions[0].Status = corev1.ConditionUnknown })
				case 2:
					name := fmt.Sprint("late-", w.Rand.IntN(1e9))
					node(w, name, []string{"a", "b", "c"}[w.Rand.IntN(3)], "4")
				case 3:
					w.Delete(client.Nodes, "", "m", metav1.DeleteOptions{})
					node(w, "m", "b", "2")
				}
				w.Rest(2 * time.Second)
			}
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.EndpointSlices, func(obj client.Object) string {
				text := ""
				for _, ep := range obj.(*discoveryv1.EndpointSlice).Endpoints {
					if text += ep.Addresses[0] + " for "; ep.Hints != nil {
						text += ep.Hints.ForZones[0].Name
					}
					text += "; "
				}
				return text
			})
		},
	})
}

func setNode(w *controllertest.World, name string, change func(*corev1.NodeStatus)) {
	w.Edit(client.Nodes, "", name, func(obj client.Object) { change(&obj.(*corev1.Node).Status) }, "status")
}
