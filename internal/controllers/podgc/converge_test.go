package podgc_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/podgc"
)

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{podgc.New(o, podgc.MostEnded)}
		},
		Start: func(w *controllertest.World) {
			for _, name := range []string{"stays", "goes", "returns", "out"} {
				w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			for _, name := range []string{"out-goes", "out-stays"} {
				w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
					Spec: corev1.PodSpec{NodeName: "out", Containers: []corev1.Container{{Name: "c", Image: "app"}}}})
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
			taint := func(obj client.Object) {
				obj.(*corev1.Node).Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "shutdown", Effect: corev1.TaintEffectNoExecute}}
			}
			if w.Rand.IntN(2) == 0 {
				w.Edit(client.Nodes, "", "out", taint)
				taint = func(client.Object) {}
			}
			w.Delete(client.Pods, "default", "out-goes", metav1.DeleteOptions{})
			w.Edit(client.Nodes, "", "out", taint)
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.Pods, func(obj client.Object) string {
				pod := obj.(*corev1.Pod)
				return fmt.Sprintf("%s failed=%v deleted=%v", pod.Name, pod.Status.Phase == corev1.PodFailed, pod.DeletionTimestamp != nil)
			})
		},
		Check: func(w *controllertest.World) error {
			if w.Get(client.Pods, "default", "out-goes") != nil || w.Get(client.Pods, "default", "out-stays") == nil {
				return fmt.Errorf("of the node that is out of service go not those that were deleted")
			}
			if n := len(w.List(client.Pods)); n != 5 {
				return fmt.Errorf("%d pods are left, want 4, and one of the node that is out of service", n)
			}
			return nil
		},
	})
}

// Two that have ended may stay: those that were made last.
func TestEndedConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller { return []controllers.Controller{podgc.New(o, 2)} },
		Start: func(w *controllertest.World) {
			w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stays"}})
			for i := range 2 + w.Rand.IntN(4) {
				makeEnded(w, fmt.Sprint("ended-", i))
			}
			w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "runs"},
				Spec: corev1.PodSpec{NodeName: "stays", Containers: []corev1.Container{{Name: "c", Image: "app"}}}})
			w.Rest(time.Minute)
		},
		Meanwhile: func(w *controllertest.World) {
			makeEnded(w, "late-1")
			time.Sleep(time.Second)
			makeEnded(w, "late-2")
		},
		End: func(w *controllertest.World) string { return w.Lines(client.Pods, client.Object.GetName) },
		Check: func(w *controllertest.World) error {
			if left := w.Lines(client.Pods, client.Object.GetName); left != "pods:\n  late-1\n  late-2\n  runs\n" {
				return errors.New("left are " + left)
			}
			return nil
		},
	})
}

func makeEnded(w *controllertest.World, name string) {
	w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: "stays", Containers: []corev1.Container{{Name: "c", Image: "app"}}}})
	w.Edit(client.Pods, "default", name, func(obj client.Object) { obj.(*corev1.Pod).Status.Phase = corev1.PodSucceeded }, "status")
}
