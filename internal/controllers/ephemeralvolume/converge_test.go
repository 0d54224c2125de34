package ephemeralvolume_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/ephemeralvolume"
)

func spec() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
}

func pod(name string, own ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "app"}}}}
	for _, v := range own {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: v, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"of": name}}, Spec: spec()}}}})
	}
	return p
}

// TestConverges: each volume of a pod's own gets its claim, once, owned by the
// pod; a claim that has the name by chance is left alone.
func TestConverges(t *testing.T) {
	now := int64(0)
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{ephemeralvolume.New(o)}
		},
		Start: func(w *controllertest.World) {
			w.Create(client.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "clash-a"}, Spec: spec()})
			w.Create(client.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "freed-a"}, Spec: spec()})
			for _, p := range []*corev1.Pod{pod("two", "a", "b"), pod("none"), pod("clash", "a", "b"), pod("freed", "a"), pod("ended", "a")} {
				if p.Name == "ended" {
					p.Finalizers = []string{"example.com/hold"}
					w.Create(client.Pods, p)
					w.Delete(client.Pods, "default", "ended", metav1.DeleteOptions{GracePeriodSeconds: &now})
					continue
				}
				w.Create(client.Pods, p)
			}
		},
		Meanwhile: func(w *controllertest.World) {
			w.Delete(client.PersistentVolumeClaims, "default", "freed-a", metav1.DeleteOptions{})
			w.Delete(client.PersistentVolumeClaims, "default", "two-b", metav1.DeleteOptions{}) // made again
			w.Create(client.Pods, pod("late", "a"))
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.PersistentVolumeClaims, func(obj client.Object) string {
				owner := "nobody"
				if ref := metav1.GetControllerOf(obj); ref != nil {
					owner = ref.Kind + " " + ref.Name
				}
				return fmt.Sprintf("%s of %s, labels %v", obj.GetName(), owner, obj.GetLabels())
			})
		},
		Check: func(w *controllertest.World) error {
			for name, owner := range map[string]string{"two-a": "two", "two-b": "two", "clash-a": "", "clash-b": "clash", "freed-a": "freed", "late-a": "late"} {
				c := w.Get(client.PersistentVolumeClaims, "default", name)
				if c == nil {
					return fmt.Errorf("no claim %s", name)
				}
				ref := metav1.GetControllerOf(c)
				if got := ref != nil; got != (owner != "") || got && (ref.Name != owner || ref.UID != w.Get(client.Pods, "default", owner).GetUID()) {
					return fmt.Errorf("claim %s is owned by %v, want %q", name, ref, owner)
				}
			}
			if n := len(w.List(client.PersistentVolumeClaims)); n != 6 {
				return fmt.Errorf("%d claims, want 6", n)
			}
			return nil
		},
	})
}
