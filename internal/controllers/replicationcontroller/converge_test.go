package replicationcontroller_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/replicationcontroller"
)

var labels = map[string]string{"app": "web"}

func newController(replicas int32) *corev1.ReplicationController {
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: &replicas, Selector: labels,
			Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
		},
	}
}

// A stray pod is adopted, one whose labels change is let go and replaced, and
// the number of pods follows the claim.
func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{replicationcontroller.New(o)}
		},
		Others: controllertest.Kubelets,
		Start: func(w *controllertest.World) {
			w.Create(client.ReplicationControllers, newController(2+w.Rand.Int32N(4)))
			// On a node, alone of all: two copies may make too many pods, and
			// must not choose it among those that go.
			w.Create(client.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "stray", Namespace: "default", Labels: labels},
				Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			})
		},
		Meanwhile: func(w *controllertest.World) {
			w.Edit(client.Pods, "default", "stray", func(obj client.Object) { obj.SetLabels(map[string]string{"app": "other"}) })
			time.Sleep(2 * time.Minute) // let go, before fewer are claimed
			size := w.Rand.Int32N(6)
			w.Edit(client.ReplicationControllers, "default", "web", func(obj client.Object) {
				obj.(*corev1.ReplicationController).Spec.Replicas = &size
			})
		},
		End: func(w *controllertest.World) string {
			text := w.Lines(client.ReplicationControllers, func(obj client.Object) string {
				rc := obj.(*corev1.ReplicationController)
				st := rc.Status
				return fmt.Sprintf("%d claimed, %d there, %d labeled, %d ready, %d available, observed %t, %v", *rc.Spec.Replicas,
					st.Replicas, st.FullyLabeledReplicas, st.ReadyReplicas, st.AvailableReplicas, st.ObservedGeneration == rc.Generation, st.Conditions)
			})
			return text + w.Lines(client.Pods, func(obj client.Object) string {
				owner := "nobody"
				if ref := metav1.GetControllerOf(obj); ref != nil {
					owner = ref.APIVersion + " " + ref.Kind
				}
				return fmt.Sprintf("of %s, %v", owner, obj.GetLabels())
			})
		},
	})
}
