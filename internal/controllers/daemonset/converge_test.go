package daemonset_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/daemonset"
)

var labels = map[string]string{"app": "agent"}

func set() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "default"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
		},
	}
}

func node(i int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{"odd": fmt.Sprint(i%2 == 1)}}}
}

func edit(w *controllertest.World, f func(*appsv1.DaemonSet)) {
	w.Edit(client.DaemonSets, "default", "agent", func(obj client.Object) { f(obj.(*appsv1.DaemonSet)) })
}

func image(name string) func(*appsv1.DaemonSet) {
	return func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.Containers[0].Image = name }
}

func end(w *controllertest.World) string {
	text := w.Lines(client.DaemonSets, func(obj client.Object) string {
		s := obj.(*appsv1.DaemonSet)
		st := s.Status
		return fmt.Sprintf("%d desired, %d current, %d misscheduled, %d ready, %d available, %d unavailable, %d updated, observed %t",
			st.DesiredNumberScheduled, st.CurrentNumberScheduled, st.NumberMisscheduled, st.NumberReady, st.NumberAvailable,
			st.NumberUnavailable, st.UpdatedNumberScheduled, st.ObservedGeneration == s.Generation)
	})
	return text + w.Lines(client.Pods, func(obj client.Object) string {
		pod := obj.(*corev1.Pod)
		where := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values
		return fmt.Sprintf("on %v, of %s", where, pod.Spec.Containers[0].Image)
	})
}

// Nodes come, go and change, and so does the template, and pods lose their
// owner; in the end each node that ought to has one pod of the last template.
func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{daemonset.New(o)}
		},
		Others: controllertest.Kubelets, End: end,
		Start: func(w *controllertest.World) {
			for i := range 4 {
				w.Create(client.Nodes, node(i))
			}
			s := set()
			surge, unavailable := intstr.FromInt(w.Rand.IntN(2)), intstr.FromInt(1)
			if surge.IntVal > 0 {
				unavailable.IntVal = 0
			}
			s.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{
				MaxSurge: &surge, MaxUnavailable: &unavailable,
			}}
			w.Create(client.DaemonSets, s)
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range 1 + w.Rand.IntN(3) {
				name := fmt.Sprint("n", w.Rand.IntN(4))
				switch w.Rand.IntN(6) {
				case 0:
					w.Edit(client.Nodes, "", name, func(obj client.Object) {
						obj.(*corev1.Node).Spec.Taints = []corev1.Taint{{Key: "away", Effect: corev1.TaintEffectNoExecute}}
					})
				case 1:
					w.Edit(client.Nodes, "", name, func(obj client.Object) { obj.(*corev1.Node).Spec.Taints = nil })
				case 2:
					w.Delete(client.Nodes, "", name, metav1.DeleteOptions{})
				case 3:
					edit(w, func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"odd": "true"} })
				case 4: // they are adopted again
					for _, pod := range w.List(client.Pods) {
						w.Edit(client.Pods, "default", pod.GetName(), func(obj client.Object) { obj.SetOwnerReferences(nil) })
					}
				default:
					edit(w, image(fmt.Sprint("v", i+2)))
				}
				w.Rest(6e9)
			}
		},
	})
}
