package clusterinfo_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/clusterinfo"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
)

func secretOf(id string) string { return id + "0123456789" }

func token(id string, expires time.Duration, signs string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte(secretOf(id)), "usage-bootstrap-signing": []byte(signs)},
	}
	if expires != 0 {
		s.Data["expiration"] = []byte(time.Now().Add(expires).Format(time.RFC3339))
	}
	return s
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Server: apitest.Options{Namespaces: []string{"default", "kube-system", "kube-public"}},
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{clusterinfo.New(o)}
		},
		Start: func(w *controllertest.World) {
			for i := range 1 + w.Rand.IntN(3) {
				w.Create(client.Secrets, token(fmt.Sprint("signs", i), 0, "true"))
			}
			w.Create(client.Secrets, token("silent", 0, ""))
			w.Create(client.Secrets, token("passes", time.Duration(1+w.Rand.IntN(100))*time.Second, "true"))
			w.Create(client.Secrets, token("leaves", 0, "true"))
			w.Create(client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: clusterinfo.ConfigMap}, Data: map[string]string{
				"kubeconfig": "at first", "jws-kubeconfig-leaves": "forged", "jws-kubeconfig-nobody": "of a token that is gone", "more": "kept",
			}})
		},
		Meanwhile: func(w *controllertest.World) {
			w.Delete(client.Secrets, "kube-system", "bootstrap-token-leaves", metav1.DeleteOptions{})
			w.Edit(client.ConfigMaps, "kube-public", clusterinfo.ConfigMap, func(obj client.Object) {
				obj.(*corev1.ConfigMap).Data["kubeconfig"] = "then"
			})
		},
		End: func(w *controllertest.World) string {
			return fmt.Sprint(w.Get(client.ConfigMaps, "kube-public", clusterinfo.ConfigMap).(*corev1.ConfigMap).Data)
		},
		Check: func(w *controllertest.World) error {
			data := w.Get(client.ConfigMaps, "kube-public", clusterinfo.ConfigMap).(*corev1.ConfigMap).Data
			signers := 0
			for _, obj := range w.List(client.Secrets) {
				s := obj.(*corev1.Secret)
				id := string(s.Data["token-id"])
				text, ok := data["jws-kubeconfig-"+id]
				if wants := string(s.Data["usage-bootstrap-signing"]) == "true" && id != "passes"; ok != wants {
					return fmt.Errorf("signed with %s: %t, want %t", id, ok, wants)
				}
				if !ok {
					continue
				}
				signers++
				if err := verify(text, "then", id); err != nil {
					return err
				}
			}
			if len(data) != signers+2 || data["more"] != "kept" {
				return fmt.Errorf("the data is %v", data)
			}
			return nil
		},
	})
}

// verify holds a detached signature against what it signs.
func verify(text, signed, id string) error {
	header, mac, ok := strings.Cut(text, "..")
	head, err := base64.RawURLEncoding.DecodeString(header)
	if !ok || err != nil {
		return fmt.Errorf("%q is no detached signature", text)
	}
	var says struct{ Alg, Kid string }
	if err := json.Unmarshal(head, &says); err != nil || says.Alg != "HS256" || says.Kid != id {
		return fmt.Errorf("the header %s is not that of %s", head, id)
	}
	sum := hmac.New(sha256.New, []byte(secretOf(id)))
	sum.Write([]byte(header + "." + base64.RawURLEncoding.EncodeToString([]byte(signed))))
	if want := base64.RawURLEncoding.EncodeToString(sum.Sum(nil)); mac != want {
		return fmt.Errorf("signed with %s: %s, want %s", id, mac, want)
	}
	return nil
}
