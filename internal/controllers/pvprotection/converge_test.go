package pvprotection_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/pvprotection"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// TestConverges: a bound volume that is deleted stays until it is released;
// others go at once; all that stay are protected.
func TestConverges(t *testing.T) {
	protected := func(obj client.Object) bool {
		return slices.Contains(obj.GetFinalizers(), volumes.VolumeProtection)
	}
	phase := func(w *controllertest.World, name string, p corev1.PersistentVolumePhase) {
		w.Edit(client.PersistentVolumes, "", name, func(obj client.Object) { obj.(*corev1.PersistentVolume).Status.Phase = p }, "status")
	}
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{pvprotection.New(o)}
		},
		Start: func(w *controllertest.World) {
			for _, name := range []string{"free", "bound", "released-later", "deleted", "unprotected"} {
				v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"example.com/hold"}}, Spec: corev1.PersistentVolumeSpec{
					Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
				}}
				if name != "unprotected" {
					v.Finalizers = append(v.Finalizers, volumes.VolumeProtection)
				}
				w.Create(client.PersistentVolumes, v)
				if name == "bound" || name == "released-later" {
					phase(w, name, corev1.VolumeBound)
				}
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for _, name := range []string{"bound", "released-later", "deleted"} {
				w.Delete(client.PersistentVolumes, "", name, metav1.DeleteOptions{})
			}
			w.Rest(1e9)
			phase(w, "released-later", corev1.VolumeReleased)
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.PersistentVolumes, func(obj client.Object) string {
				return fmt.Sprintf("%s protected=%t", obj.GetName(), protected(obj))
			})
		},
		Check: func(w *controllertest.World) error {
			for name, want := range map[string]bool{"free": true, "bound": true, "released-later": false, "deleted": false, "unprotected": true} {
				if v := w.Get(client.PersistentVolumes, "", name); v == nil || protected(v) != want {
					return fmt.Errorf("volume %s: %v", name, v)
				}
			}
			return nil
		},
	})
}
