package namespace_test

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
	"github.com/setpoint-project/setpoint/internal/controllers/namespace"
)

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{namespace.New(o)}
}

func furnish(w *controllertest.World, ns string, finalizers ...string) {
	w.Create(client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	for i := range 1 + w.Rand.IntN(4) {
		w.Create(client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("cm-", i), Finalizers: finalizers}})
		w.Create(client.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("sa-", i)}})
		w.Create(client.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("pod-", i)},
			Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
		})
	}
}

func end(w *controllertest.World) string {
	text := w.Lines(client.Namespaces, func(obj client.Object) string {
		ns := obj.(*corev1.Namespace)
		line := ns.Name + " " + string(ns.Status.Phase)
		for _, c := range ns.Status.Conditions {
			line += fmt.Sprintf("; %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		return line
	})
	for _, res := range []client.Resource{client.ConfigMaps, client.ServiceAccounts, client.Pods} {
		text += w.Lines(res, func(obj client.Object) string { return obj.GetNamespace() + "/" + obj.GetName() })
	}
	return text
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: controllertest.Kubelets, End: end,
		Start: func(w *controllertest.World) {
			furnish(w, "stays")
			furnish(w, "goes")
			furnish(w, "goes-too")
		},
		Meanwhile: func(w *controllertest.World) {
			w.Delete(client.Namespaces, "", "goes", metav1.DeleteOptions{})
			w.Rest(5 * time.Second)
			w.Delete(client.Namespaces, "", "goes-too", metav1.DeleteOptions{})
		},
		Check: func(w *controllertest.World) error {
			if w.Get(client.Namespaces, "", "goes") != nil || w.Get(client.Namespaces, "", "goes-too") != nil || w.Get(client.Namespaces, "", "stays") == nil {
				return fmt.Errorf("the wrong namespaces are left")
			}
			return nil
		},
	})
}

// Content that is held back is told, and not deleted over and over.
func TestHeldBack(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: controllertest.Kubelets, End: end, Runs: 50,
		Start: func(w *controllertest.World) { furnish(w, "stuck", "example.com/hold") },
		Meanwhile: func(w *controllertest.World) {
			w.Delete(client.Namespaces, "", "stuck", metav1.DeleteOptions{})
		},
		Check: func(w *controllertest.World) error {
			got := end(w)
			n := len(w.List(client.ConfigMaps))
			for _, want := range []string{
				"stuck Terminating",
				fmt.Sprintf("NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has %d resource instances", n),
				fmt.Sprintf("NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in %d resource instances", n),
				"NamespaceDeletionContentFailure=False ContentDeleted",
				"NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered",
			} {
				if !strings.Contains(got, want) {
					return fmt.Errorf("missing %q", want)
				}
			}
			return nil
		},
	})
}
