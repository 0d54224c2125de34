package serviceaccount_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/serviceaccount"
)

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{serviceaccount.New(o)}
		},
		Start: func(w *controllertest.World) {
			for i := range w.Rand.IntN(4) {
				w.Create(client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ns-", i)}})
			}
		},
		Meanwhile: func(w *controllertest.World) {
			w.Create(client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
			w.Delete(client.ServiceAccounts, "default", serviceaccount.Account, metav1.DeleteOptions{})
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.ServiceAccounts, func(obj client.Object) string { return obj.GetNamespace() + "/" + obj.GetName() })
		},
		Check: func(w *controllertest.World) error {
			if accounts, namespaces := len(w.List(client.ServiceAccounts)), len(w.List(client.Namespaces)); accounts != namespaces {
				return fmt.Errorf("%d accounts in %d namespaces", accounts, namespaces)
			}
			return nil
		},
	})
}
