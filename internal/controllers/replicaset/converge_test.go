package replicaset_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
)

var labels = map[string]string{"app": "web"}

func set(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
		},
	}
}

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{replicaset.New(o)}
}

func end(w *controllertest.World) string {
	text := w.Lines(client.ReplicaSets, func(obj client.Object) string {
		rs := obj.(*appsv1.ReplicaSet)
		st := rs.Status
		return fmt.Sprintf("%s: %d claimed, %d there, %d labeled, %d ready, %d available, %d terminating, generation %d of %d, %v",
			rs.Name, *rs.Spec.Replicas, st.Replicas, st.FullyLabeledReplicas, st.ReadyReplicas, st.AvailableReplicas,
			*st.TerminatingReplicas, st.ObservedGeneration, rs.Generation, st.Conditions)
	})
	return text + w.Lines(client.Pods, func(obj client.Object) string {
		owner := "nobody"
		if ref := metav1.GetControllerOf(obj); ref != nil {
			owner = ref.Name
		}
		return fmt.Sprintf("of %s, %v", owner, obj.GetLabels())
	})
}

// Pods are made once, whatever happens, when only growth is claimed.
func TestConvergesGrowing(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: controllertest.Kubelets, End: end,
		Start: func(w *controllertest.World) {
			w.Create(client.ReplicaSets, set(1+w.Rand.Int32N(6)))
			if w.Rand.IntN(2) == 0 { // to be adopted
				w.Create(client.Pods, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "stray", Namespace: "default", Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
				})
			}
		},
		Check: func(w *controllertest.World) error {
			if deleted := w.Done("delete", client.Pods); deleted > 0 && w.Copies == 1 {
				return fmt.Errorf("%d pods too many were made", deleted)
			}
			return nil
		},
	})
}

func TestConvergesChanging(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: controllertest.Kubelets, End: end,
		Start: func(w *controllertest.World) { w.Create(client.ReplicaSets, set(w.Rand.Int32N(8))) },
		Meanwhile: func(w *controllertest.World) {
			for range 1 + w.Rand.IntN(3) {
				size := w.Rand.Int32N(8)
				w.Edit(client.ReplicaSets, "default", "web", func(obj client.Object) { obj.(*appsv1.ReplicaSet).Spec.Replicas = &size })
				w.Rest(2e9)
			}
		},
	})
}
