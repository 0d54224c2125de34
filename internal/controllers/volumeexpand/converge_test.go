package volumeexpand_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/volumeexpand"
	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

func size(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

// bound makes a claim and its volume as the binder leaves them.
func bound(w *controllertest.World, name string, source func(*corev1.PersistentVolume)) {
	c := w.Create(client.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{volumes.BindCompleted: volumes.Yes}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: name, StorageClassName: new("x"),
			Resources: corev1.VolumeResourceRequirements{Requests: size("1Gi")}}}).(*corev1.PersistentVolumeClaim)
	v := localpath.Volume(c, localpath.Class(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "/v")
	v.Name, v.Spec.StorageClassName = name, "x"
	source(v)
	w.Create(client.PersistentVolumes, v)
	w.Edit(client.PersistentVolumeClaims, "default", name, func(obj client.Object) {
		c := obj.(*corev1.PersistentVolumeClaim)
		c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, size("1Gi")
	}, "status")
}

// TestConverges: a folder grows with its claim, several times; a volume of a
// driver is left to the driver, another stays as it is.
func TestConverges(t *testing.T) {
	ask := func(w *controllertest.World, want string) {
		for _, name := range []string{"folder", "driver", "host"} {
			w.Edit(client.PersistentVolumeClaims, "default", name, func(obj client.Object) { obj.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests = size(want) })
		}
	}
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{volumeexpand.New(o)}
		},
		Start: func(w *controllertest.World) {
			bound(w, "folder", func(*corev1.PersistentVolume) {})
			bound(w, "driver", func(v *corev1.PersistentVolume) {
				v.Annotations, v.Spec.PersistentVolumeSource = nil, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "1"}}
			})
			bound(w, "host", func(v *corev1.PersistentVolume) {
				v.Annotations, v.Spec.PersistentVolumeSource = nil, corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}
			})
			ask(w, "2Gi")
		},
		Meanwhile: func(w *controllertest.World) { ask(w, "5Gi") },
		End: func(w *controllertest.World) string {
			return w.Lines(client.PersistentVolumeClaims, func(obj client.Object) string {
				c := obj.(*corev1.PersistentVolumeClaim)
				q := c.Status.Capacity[corev1.ResourceStorage]
				return c.Name + " " + q.String()
			}) + w.Lines(client.PersistentVolumes, func(obj client.Object) string {
				q := volumes.Capacity(obj.(*corev1.PersistentVolume))
				return obj.GetName() + " " + q.String()
			})
		},
		Check: func(w *controllertest.World) error {
			for name, want := range map[string]string{"folder": "5Gi", "driver": "1Gi", "host": "1Gi"} {
				v, c := w.Get(client.PersistentVolumes, "", name).(*corev1.PersistentVolume), w.Get(client.PersistentVolumeClaims, "default", name).(*corev1.PersistentVolumeClaim)
				got, said := volumes.Capacity(v), c.Status.Capacity[corev1.ResourceStorage]
				if got.String() != want || said.String() != want {
					return fmt.Errorf("volume %s has %s, its claim says %s, want %s", name, got.String(), said.String(), want)
				}
			}
			return nil
		},
	})
}
