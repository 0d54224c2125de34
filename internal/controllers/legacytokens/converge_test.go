package legacytokens_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/legacytokens"
)

// period is short, for everything in the world is new. Days are midnights, and
// bubbles begin at one.
const period = 2 * time.Minute

func secret(name string, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels, Annotations: map[string]string{corev1.ServiceAccountNameKey: "a"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

func pod(name, mounts string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: mounts}}}},
		},
	}
}

func TestConverges(t *testing.T) {
	const tomorrow = "2000-01-02" // of a bubble
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{legacytokens.New(o, period)}
		},
		Start: func(w *controllertest.World) {
			a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
			list := func(s *corev1.Secret) {
				w.Create(client.Secrets, s)
				a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: s.Name})
			}
			for i := range 1 + w.Rand.IntN(3) {
				list(secret(fmt.Sprint("unused-", i), nil))
			}
			list(secret("used", map[string]string{"kubernetes.io/legacy-token-last-used": tomorrow}))
			list(secret("long-invalid", map[string]string{"kubernetes.io/legacy-token-invalid-since": "1999-01-01"}))
			list(secret("mounted", nil))
			list(secret("was-mounted", nil))
			w.Create(client.Secrets, secret("by-hand", nil))
			w.Create(client.ServiceAccounts, a)
			w.Create(client.Pods, pod("stays", "mounted"))
			w.Create(client.Pods, pod("goes", "was-mounted"))
			w.Create(client.ConfigMaps, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: legacytokens.Tracking}, Data: map[string]string{legacytokens.Since: "1999-06-01"},
			})
			w.Rest(period)
		},
		Meanwhile: func(w *controllertest.World) {
			now := int64(0)
			w.Delete(client.Pods, "default", "goes", metav1.DeleteOptions{GracePeriodSeconds: &now})
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.Secrets, func(obj client.Object) string { return fmt.Sprint(obj.GetName(), obj.GetLabels()) })
		},
		Check: func(w *controllertest.World) error {
			want := map[string]bool{"used": true, "mounted": true, "by-hand": true}
			for _, obj := range w.List(client.Secrets) {
				if !want[obj.GetName()] {
					return fmt.Errorf("%s is left", obj.GetName())
				}
				if _, marked := obj.GetLabels()["kubernetes.io/legacy-token-invalid-since"]; marked {
					return fmt.Errorf("%s is marked", obj.GetName())
				}
				delete(want, obj.GetName())
			}
			if len(want) > 0 {
				return fmt.Errorf("gone are %v", want)
			}
			return nil
		},
	})
}
