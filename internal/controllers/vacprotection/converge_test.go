package vacprotection_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/vacprotection"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// TestConverges: classes that are deleted go when neither a claim nor a volume
// names them; the others are protected.
func TestConverges(t *testing.T) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{vacprotection.New(o)}
		},
		Start: func(w *controllertest.World) {
			for _, name := range []string{"free", "claimed", "had", "let-go", "unused"} {
				class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"example.com/hold"}}, DriverName: "d.example.com", Parameters: map[string]string{"a": "b"}}
				if name != "free" {
					class.Finalizers = append(class.Finalizers, volumes.AttributesProtection)
				}
				w.Create(client.VolumeAttributesClasses, class)
			}
			for _, name := range []string{"claimed", "let-go"} {
				w.Create(client.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
					Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeAttributesClassName: &name, Resources: corev1.VolumeResourceRequirements{Requests: size}}})
			}
			w.Create(client.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "had"}, Spec: corev1.PersistentVolumeSpec{
				Capacity: size, AccessModes: modes, VolumeAttributesClassName: new("had"),
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "1"}}}})
		},
		Meanwhile: func(w *controllertest.World) {
			for _, name := range []string{"claimed", "had", "let-go", "unused"} {
				w.Delete(client.VolumeAttributesClasses, "", name, metav1.DeleteOptions{})
			}
			w.Rest(1e9)
			w.Delete(client.PersistentVolumeClaims, "default", "let-go", metav1.DeleteOptions{})
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.VolumeAttributesClasses, func(obj client.Object) string { return fmt.Sprint(obj.GetName(), obj.GetFinalizers()) })
		},
		Check: func(w *controllertest.World) error {
			for name, want := range map[string]bool{"free": true, "claimed": true, "had": true, "let-go": false, "unused": false} {
				if c := w.Get(client.VolumeAttributesClasses, "", name); c == nil || slices.Contains(c.GetFinalizers(), volumes.AttributesProtection) != want {
					return fmt.Errorf("class %s: %v", name, c)
				}
			}
			return nil
		},
	})
}
