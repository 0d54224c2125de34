package bootstraptokencleaning_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/bootstraptokencleaning"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
)

func token(id, expires string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "expiration": []byte(expires)},
	}
}

func in(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{bootstraptokencleaning.New(o)}
		},
		Start: func(w *controllertest.World) {
			for i := range w.Rand.IntN(3) {
				w.Create(client.Secrets, token(fmt.Sprint("soon0", i), in(time.Duration(w.Rand.IntN(120))*time.Second)))
			}
			w.Create(client.Secrets, token("passed", in(-time.Hour)))
			w.Create(client.Secrets, token("unread", "tomorrow"))
			w.Create(client.Secrets, token("extend", in(time.Minute)))
			w.Create(client.Secrets, token("always", ""))
			w.Create(client.Secrets, token("stays0", in(24*time.Hour)))
			other := token("opaque", in(-time.Hour))
			other.Type = corev1.SecretTypeOpaque
			w.Create(client.Secrets, other)
			elsewhere := token("elsewh", in(-time.Hour))
			elsewhere.Namespace = "default"
			w.Create(client.Secrets, elsewhere)
		},
		Meanwhile: func(w *controllertest.World) {
			w.Edit(client.Secrets, "kube-system", "bootstrap-token-extend", func(obj client.Object) {
				obj.(*corev1.Secret).Data["expiration"] = []byte(in(24 * time.Hour))
			})
		},
		End: func(w *controllertest.World) string { return w.Lines(client.Secrets, client.Object.GetName) },
		Check: func(w *controllertest.World) error {
			var left []string
			for _, obj := range w.List(client.Secrets) {
				left = append(left, strings.TrimPrefix(obj.GetName(), "bootstrap-token-"))
			}
			if got := strings.Join(left, " "); got != "elsewh always extend opaque stays0" {
				return fmt.Errorf("left are %s", got)
			}
			return nil
		},
	})
}
