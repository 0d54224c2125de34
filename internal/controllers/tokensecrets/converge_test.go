package tokensecrets_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/tokensecrets"
)

const bundle = "-----BEGIN CERTIFICATE-----\n"

func sign(s *corev1.Secret, a *corev1.ServiceAccount) (string, error) {
	return "token of " + a.Name + " in " + s.Name, nil
}

func account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func secret(name, account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account, "kept": "yes"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{tokensecrets.New(o, sign, []byte(bundle))}
		},
		Start: func(w *controllertest.World) {
			w.Create(client.ServiceAccounts, account("stays"))
			w.Create(client.ServiceAccounts, account("leaves"))
			w.Create(client.ServiceAccounts, account("anew"))
			for i := range 1 + w.Rand.IntN(3) {
				w.Create(client.Secrets, secret(fmt.Sprint("stays-", i), "stays"))
			}
			w.Create(client.Secrets, secret("leaves", "leaves"))
			w.Create(client.Secrets, secret("anew", "anew"))
			w.Create(client.Secrets, secret("nobody", "nobody"))
			foreign := secret("foreign", "stays") // of an account of that name that is gone
			foreign.Annotations[corev1.ServiceAccountUIDKey] = "0"
			w.Create(client.Secrets, foreign)
			older := secret("older", "stays") // the authority was another, the token stays
			older.Data = map[string][]byte{"token": []byte("from before"), "ca.crt": []byte("older"), "more": []byte("kept")}
			w.Create(client.Secrets, older)
			opaque := secret("opaque", "nobody")
			opaque.Type = corev1.SecretTypeOpaque
			w.Create(client.Secrets, opaque)
		},
		Meanwhile: func(w *controllertest.World) {
			w.Delete(client.ServiceAccounts, "default", "leaves", metav1.DeleteOptions{})
			w.Delete(client.ServiceAccounts, "default", "anew", metav1.DeleteOptions{})
			// Somebody takes out what the loop put in.
			w.Edit(client.Secrets, "default", "stays-0", func(obj client.Object) { obj.(*corev1.Secret).Data = nil })
		},
		End: end,
		Check: func(w *controllertest.World) error {
			if w.Get(client.Secrets, "default", "leaves") != nil || w.Get(client.Secrets, "default", "nobody") != nil || w.Get(client.Secrets, "default", "foreign") != nil {
				return fmt.Errorf("a Secret outlives its account")
			}
			s, _ := w.Get(client.Secrets, "default", "stays-0").(*corev1.Secret)
			if s == nil || string(s.Data["token"]) != "token of stays in stays-0" || string(s.Data["namespace"]) != "default" || string(s.Data["ca.crt"]) != bundle {
				return fmt.Errorf("stays-0 is %v", s)
			}
			if older := w.Get(client.Secrets, "default", "older").(*corev1.Secret); string(older.Data["token"]) != "from before" || string(older.Data["ca.crt"]) != bundle || string(older.Data["more"]) != "kept" {
				return fmt.Errorf("older is %v", older.Data)
			}
			return nil
		},
	})
}

func end(w *controllertest.World) string {
	uids := map[string]string{}
	for _, a := range w.List(client.ServiceAccounts) {
		uids[string(a.GetUID())] = a.GetName()
	}
	return w.Lines(client.Secrets, func(obj client.Object) string {
		s := obj.(*corev1.Secret)
		return fmt.Sprint(s.Name, " ", s.Type, " ", s.Data, " of ", uids[s.Annotations[corev1.ServiceAccountUIDKey]], " ", s.Annotations["kept"])
	})
}
