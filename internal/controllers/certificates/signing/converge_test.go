package signing_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/requesttest"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/signing"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/pki"
)

func decide(w *controllertest.World, name string, t certificatesv1.RequestConditionType) {
	w.Edit(client.SigningRequests, "", name, func(obj client.Object) {
		r := obj.(*certificatesv1.CertificateSigningRequest)
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: t, Status: corev1.ConditionTrue, Reason: "Test"}}
	}, "approval")
}

func TestConverges(t *testing.T) {
	var authority *pki.Authority // of the play that runs: it is as old as its bubble
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{signing.New(o, authority)}
		},
		Start: func(w *controllertest.World) {
			var err error
			if authority, err = pki.Open(w.TB.TempDir()); err != nil {
				w.TB.Fatal(err)
			}
			key := requesttest.Key(w.TB)
			file := func(name string, a requesttest.Asked, seconds int32) {
				r := requesttest.New(w.TB, name, a, key)
				if seconds > 0 {
					r.Spec.ExpirationSeconds = &seconds
				}
				w.Create(client.SigningRequests, r)
			}
			for i := range 1 + w.Rand.IntN(3) {
				name := fmt.Sprint("node-", i)
				file(name, requesttest.Node(name), 0)
				decide(w, name, certificatesv1.CertificateApproved)
			}
			file("short", requesttest.User("jane"), 3600)
			file("undecided", requesttest.User("jane"), 0)
			file("denied", requesttest.User("jane"), 0)
			decide(w, "denied", certificatesv1.CertificateDenied)
			wrong := requesttest.Node("n")
			wrong.CSR.Subject.Organization = []string{"system:masters"}
			file("wrong", wrong, 0)
			decide(w, "wrong", certificatesv1.CertificateApproved)
			other := requesttest.User("jane")
			other.Signer = "example.com/other"
			file("other", other, 0)
			decide(w, "other", certificatesv1.CertificateApproved)
		},
		Meanwhile: func(w *controllertest.World) { decide(w, "short", certificatesv1.CertificateApproved) },
		End:       func(w *controllertest.World) string { return w.Lines(client.SigningRequests, line) },
		Check: func(w *controllertest.World) error {
			for name, want := range map[string]string{
				"node-0":    "node-0: Approved; system:node:node-0 [system:nodes] for 8760h0m0s",
				"short":     "short: Approved; jane [] for 1h5m0s",
				"undecided": "undecided:", "denied": "denied: Denied", "other": "other: Approved",
				"wrong": "wrong: Approved Failed(SignerValidationFailure: subject organization is not system:nodes)",
			} {
				if got := line(w.Get(client.SigningRequests, "", name)); got != want {
					return fmt.Errorf("got %q, want %q", got, want)
				}
			}
			return nil
		},
	})
}

func line(obj client.Object) string {
	r := obj.(*certificatesv1.CertificateSigningRequest)
	text := r.Name + ":"
	for _, c := range r.Status.Conditions {
		text += " " + string(c.Type)
		if c.Type == certificatesv1.CertificateFailed {
			text += "(" + c.Reason + ": " + c.Message + ")"
		}
	}
	if block, _ := pem.Decode(r.Status.Certificate); block != nil {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err.Error()
		}
		text += fmt.Sprintf("; %s %v for %v", cert.Subject.CommonName, cert.Subject.Organization, cert.NotAfter.Sub(cert.NotBefore).Round(time.Second))
	}
	return text
}
