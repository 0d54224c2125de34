package pvcprotection_test

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
	"github.com/setpoint-project/setpoint/internal/controllers/pvcprotection"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

func claim(name string, finalizers ...string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: finalizers}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

func pod(name, node, claim string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "app"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
}

// TestConverges: claims that are deleted go when no pod with a node uses them;
// the others are protected, whoever made them.
func TestConverges(t *testing.T) {
	now := int64(0)
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{pvcprotection.New(o)}
		},
		Start: func(w *controllertest.World) {
			for _, name := range []string{"free", "used", "let-go", "pending", "shared", "ended"} {
				finalizers := []string{"example.com/hold"}
				if name != "free" { // made by somebody whom admission did not see
					finalizers = append(finalizers, volumes.ClaimProtection)
				}
				w.Create(client.PersistentVolumeClaims, claim(name, finalizers...))
			}
			for _, p := range []*corev1.Pod{
				pod("uses", "n", "used"), pod("goes", "n", "let-go"), pod("waits", "", "pending"),
				pod("one", "n", "shared"), pod("two", "n", "shared"), pod("done", "n", "ended"),
			} {
				w.Create(client.Pods, p)
			}
			w.Edit(client.Pods, "default", "done", func(obj client.Object) { obj.(*corev1.Pod).Status.Phase = corev1.PodSucceeded }, "status")
		},
		Meanwhile: func(w *controllertest.World) {
			for _, name := range []string{"used", "let-go", "pending", "shared", "ended"} {
				w.Delete(client.PersistentVolumeClaims, "default", name, metav1.DeleteOptions{})
			}
			w.Rest(1e9)
			for _, name := range []string{"goes", "one"} {
				w.Delete(client.Pods, "default", name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			}
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.PersistentVolumeClaims, func(obj client.Object) string {
				return fmt.Sprintf("%s going=%t protected=%t", obj.GetName(), obj.GetDeletionTimestamp() != nil, slices.Contains(obj.GetFinalizers(), volumes.ClaimProtection))
			})
		},
		Check: func(w *controllertest.World) error {
			for name, protected := range map[string]bool{"free": true, "let-go": false, "pending": false, "used": true, "shared": true, "ended": true} {
				c := w.Get(client.PersistentVolumeClaims, "default", name)
				if c == nil || slices.Contains(c.GetFinalizers(), volumes.ClaimProtection) != protected {
					return fmt.Errorf("claim %s: %v", name, c)
				}
			}
			return nil
		},
	})
}
