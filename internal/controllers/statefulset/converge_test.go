package statefulset_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/statefulset"
)

var labels = map[string]string{"app": "web"}

func set(replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "web",
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		},
	}
}

func edit(w *controllertest.World, f func(*appsv1.StatefulSet)) {
	w.Edit(client.StatefulSets, "default", "web", func(obj client.Object) { f(obj.(*appsv1.StatefulSet)) })
}

func image(name string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = name }
}

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{statefulset.New(o)}
}

func end(w *controllertest.World) string {
	text := w.Lines(client.StatefulSets, func(obj client.Object) string {
		s := obj.(*appsv1.StatefulSet)
		st := s.Status
		return fmt.Sprintf("%s: %d claimed, %d there, %d ready, %d available, %d current, %d updated, done %t, observed %t",
			s.Name, *s.Spec.Replicas, st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.CurrentReplicas, st.UpdatedReplicas,
			st.CurrentRevision == st.UpdateRevision, st.ObservedGeneration == s.Generation)
	})
	text += w.Lines(client.Pods, func(obj client.Object) string {
		pod := obj.(*corev1.Pod)
		return fmt.Sprintf("%s of %s, %v", pod.Name, pod.Spec.Containers[0].Image, pod.Labels[appsv1.PodIndexLabel])
	})
	return text
}

// What is claimed last is there in the end, and no place had two pods.
func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: controllertest.Kubelets, End: end,
		Start: func(w *controllertest.World) {
			s := set(1 + w.Rand.Int32N(3))
			if w.Rand.IntN(2) == 0 {
				s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
			}
			if w.Rand.IntN(3) == 0 {
				s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 2}
			}
			if w.Rand.IntN(3) == 0 {
				s.Spec.MinReadySeconds = 3
			}
			w.Create(client.StatefulSets, s)
			if w.Rand.IntN(3) == 0 { // to be adopted
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "web-2", Namespace: "default", Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v0"}}},
				}
				w.Create(client.Pods, pod)
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range 1 + w.Rand.IntN(3) {
				switch w.Rand.IntN(4) {
				case 0:
					n := w.Rand.Int32N(4)
					edit(w, func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n })
				case 1:
					edit(w, image("v1"))
				case 2: // they are adopted again
					for _, pod := range w.List(client.Pods) {
						w.Edit(client.Pods, "default", pod.GetName(), func(obj client.Object) { obj.SetOwnerReferences(nil) })
					}
				default:
					edit(w, image(fmt.Sprint("v", i+2)))
				}
				w.Rest(8e9)
			}
			edit(w, image("last")) // pods that nobody updated are not left from before
		},
		Check: func(w *controllertest.World) error {
			for _, obj := range w.List(client.ControllerRevisions) {
				if metav1.GetControllerOf(obj) == nil {
					return fmt.Errorf("revision %s belongs to nobody", obj.GetName())
				}
			}
			return nil
		},
	})
}

// A partition keeps the pods below it back: of three, two are updated and one
// is current.
func TestConvergesPartition(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: controllertest.Kubelets, End: end, Runs: 100,
		Start: func(w *controllertest.World) {
			s := set(3)
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(1))},
			}
			w.Create(client.StatefulSets, s)
		},
		Meanwhile: func(w *controllertest.World) {
			time.Sleep(3 * time.Minute)
			edit(w, image("v2"))
			time.Sleep(3 * time.Minute)
			w.Delete(client.Pods, "default", "web-0", metav1.DeleteOptions{}) // comes back as it was
		},
		Check: func(w *controllertest.World) error {
			st := w.Get(client.StatefulSets, "default", "web").(*appsv1.StatefulSet).Status
			if st.UpdatedReplicas != 2 || st.CurrentReplicas != 1 || st.CurrentRevision == st.UpdateRevision {
				return fmt.Errorf("status is %+v", st)
			}
			return nil
		},
	})
}

// With ordered pods a template that never gets ready keeps the set at its first
// pod, even once it is mended; with Parallel the set goes on.
func TestBrokenRevision(t *testing.T) {
	for _, policy := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		controllertest.Run(t, controllertest.Case{
			Loops: loops, Others: controllertest.Kubelets, End: end, Runs: 50,
			Start: func(w *controllertest.World) {
				s := set(3)
				s.Spec.PodManagementPolicy = policy
				w.Create(client.StatefulSets, s)
			},
			Meanwhile: func(w *controllertest.World) {
				time.Sleep(3 * time.Minute)
				edit(w, image(controllertest.Broken))
				time.Sleep(3 * time.Minute)
				edit(w, image("v3"))
			},
			Check: func(w *controllertest.World) error {
				ready := w.Get(client.StatefulSets, "default", "web").(*appsv1.StatefulSet).Status.ReadyReplicas
				top := w.Get(client.Pods, "default", "web-2").(*corev1.Pod).Spec.Containers[0].Image
				if ordered := policy == appsv1.OrderedReadyPodManagement; ordered && (ready != 2 || top != controllertest.Broken) || !ordered && (ready != 3 || top != "v3") {
					return fmt.Errorf("%s: %d are ready, the last is of %s", policy, ready, top)
				}
				return nil
			},
		})
	}
}
