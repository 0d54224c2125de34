package cleaning_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/cleaning"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/requesttest"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// filed is a request with conditions of some age and, if life is not 0, a
// certificate that lives so long from now.
func filed(w *controllertest.World, name string, life time.Duration, age time.Duration, conditions ...certificatesv1.RequestConditionType) {
	key := requesttest.Key(w.TB)
	w.Create(client.SigningRequests, requesttest.New(w.TB, name, requesttest.User("jane"), key))
	at := metav1.NewTime(time.Now().Add(-age))
	for _, t := range conditions {
		view := "approval"
		if t == certificatesv1.CertificateFailed {
			view = "status"
		}
		w.Edit(client.SigningRequests, "", name, func(obj client.Object) {
			r := obj.(*certificatesv1.CertificateSigningRequest)
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: t, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: at, LastTransitionTime: at})
		}, view)
	}
	if life == 0 {
		return
	}
	authority, err := pki.Open(w.TB.TempDir())
	if err != nil {
		w.TB.Fatal(err)
	}
	der, err := authority.Issue(&x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life)}, key.Public())
	if err != nil {
		w.TB.Fatal(err)
	}
	w.Edit(client.SigningRequests, "", name, func(obj client.Object) {
		obj.(*certificatesv1.CertificateSigningRequest).Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}, "status")
}

const (
	approved = certificatesv1.CertificateApproved
	denied   = certificatesv1.CertificateDenied
	failed   = certificatesv1.CertificateFailed
)

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller { return []controllers.Controller{cleaning.New(o)} },
		Start: func(w *controllertest.World) {
			for i := range w.Rand.IntN(3) {
				filed(w, fmt.Sprint("denied-long-ago-", i), 0, 2*time.Hour, denied)
			}
			filed(w, "issued-long-ago", 24*time.Hour, 2*time.Hour, approved)
			filed(w, "failed-long-ago", 0, 2*time.Hour, approved, failed)
			filed(w, "expired", -time.Minute, 0, approved)
			filed(w, "approved-long-ago", 0, 2*time.Hour, approved)
			filed(w, "new", 0, 0)
		},
		Meanwhile: func(w *controllertest.World) { filed(w, "denied-as-well", 0, 2*time.Hour, denied) },
		End:       func(w *controllertest.World) string { return w.Lines(client.SigningRequests, client.Object.GetName) },
		Check: func(w *controllertest.World) error {
			if left := w.List(client.SigningRequests); len(left) != 2 {
				return fmt.Errorf("%d requests are left, want new and approved-long-ago", len(left))
			}
			return nil
		},
	})
}

func podRequest(t testing.TB, name string) *certificatesv1.PodCertificateRequest {
	seconds := int32(3600)
	block, _ := pem.Decode(requesttest.New(t, "x", requesttest.Asked{}, requesttest.Key(t)).Spec.Request)
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: "1", ServiceAccountName: "a", ServiceAccountUID: "2", NodeName: "n", NodeUID: "3",
			MaxExpirationSeconds: &seconds, StubPKCS10Request: block.Bytes,
		},
	}
}

func TestPodsConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{cleaning.NewPods(o)}
		},
		Start: func(w *controllertest.World) {
			for i := range 1 + w.Rand.IntN(3) {
				w.Create(cleaning.PodRequests, podRequest(w.TB, fmt.Sprint("r-", i)))
				w.Rest(time.Minute)
			}
			time.Sleep(10 * time.Minute) // some are due before the loop begins
			w.Rest(10 * time.Minute)
		},
		End: func(w *controllertest.World) string { return w.Lines(cleaning.PodRequests, client.Object.GetName) },
		Check: func(w *controllertest.World) error {
			if left := w.List(cleaning.PodRequests); len(left) != 0 {
				return fmt.Errorf("%d requests are left", len(left))
			}
			return nil
		},
	})
}

// Each request goes when its time is up and not before.
func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		w := &controllertest.World{TB: t, Client: h.Client("tester")}
		ctx, cancel := context.WithCancel(t.Context())
		loops := []controllers.Controller{cleaning.New(controllers.Options{Client: w.Client}), cleaning.NewPods(controllers.Options{Client: w.Client})}
		ended := make(chan struct{})
		for _, l := range loops {
			go func() { l.Run(ctx); ended <- struct{}{} }()
		}
		filed(w, "pending", 0, 0)
		filed(w, "denied", 0, 0, denied)
		filed(w, "issued", 48*time.Hour, 0, approved)
		filed(w, "short", 20*time.Minute, 0, approved)
		w.Create(cleaning.PodRequests, podRequest(t, "pod"))
		begin := time.Now()
		for _, step := range []struct {
			after time.Duration
			left  string
		}{
			{15*time.Minute - time.Second, "pod denied issued pending short "},
			{15*time.Minute + time.Second, "denied issued pending short "},
			{20*time.Minute + time.Second, "denied issued pending "},
			{time.Hour - time.Second, "denied issued pending "},
			{time.Hour + time.Second, "pending "},
			{24*time.Hour - time.Second, "pending "},
			{24*time.Hour + time.Second, ""},
		} {
			time.Sleep(time.Until(begin.Add(step.after)))
			synctest.Wait()
			left := ""
			for _, res := range []client.Resource{cleaning.PodRequests, client.SigningRequests} {
				for _, obj := range w.List(res) {
					left += obj.GetName() + " "
				}
			}
			if left != step.left {
				t.Errorf("after %v: %q are left, want %q", step.after, left, step.left)
			}
		}
		cancel()
		for range loops {
			<-ended
		}
	})
}
