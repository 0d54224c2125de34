package podgc_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/podgc"
)

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Runs:  40,
		Loops: func(o controllers.Options) []controllers.Controller { return []controllers.Controller{podgc.New(o)} },
		Start: func(w *controllertest.World) {
			for _, name := range []string{"stays", "goes", "returns"} {
				w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			for i, node := range []string{"stays", "goes", "goes", "returns", "never-was", ""} {
				w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d-%s", i, node+"x")},
					Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "app"}}}})
			}
			w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held", Finalizers: []string{"example.com/hold"}},
				Spec: corev1.PodSpec{NodeName: "goes", Containers: []corev1.Container{{Name: "c", Image: "app"}}}})
		},
		Meanwhile: func(w *controllertest.World) {
			w.Delete(client.Nodes, "", "goes", metav1.DeleteOptions{})
			w.Delete(client.Nodes, "", "returns", metav1.DeleteOptions{})
			w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "returns"}})
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.Pods, func(obj client.Object) string {
				pod := obj.(*corev1.Pod)
				return fmt.Sprintf("%s failed=%v deleted=%v", pod.Name, pod.Status.Phase == corev1.PodFailed, pod.DeletionTimestamp != nil)
			})
		},
		Check: func(w *controllertest.World) error {
			if n := len(w.List(client.Pods)); n != 4 {
				return fmt.Errorf("%d pods are left, want 4", n)
			}
			return nil
		},
	})
}
