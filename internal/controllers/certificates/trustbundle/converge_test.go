package trustbundle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/trustbundle"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// ca is the certificate of an authority of its own.
func ca(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := pki.Open(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func bundle(name, signer, text string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text},
	}
}

// One bundle stays, whatever was published before; those of others stay too.
func TestConverges(t *testing.T) {
	ours, older := ca(t), ca(t)
	const prefix = "kubernetes.io:kube-apiserver-serving:"
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{trustbundle.New(o, []byte(ours))}
		},
		Start: func(w *controllertest.World) {
			for i := range w.Rand.IntN(3) {
				w.Create(trustbundle.Bundles, bundle(fmt.Sprint(prefix, "older-", i), trustbundle.Signer, older))
			}
			w.Create(trustbundle.Bundles, bundle("example.com:s:live", "example.com/s", older))
			w.Create(trustbundle.Bundles, bundle("unsigned", "", older))
		},
		Meanwhile: func(w *controllertest.World) {
			switch w.Rand.IntN(3) {
			case 0:
				w.Create(trustbundle.Bundles, bundle(prefix+"forged", trustbundle.Signer, older))
			case 1:
				for _, obj := range w.List(trustbundle.Bundles) {
					if strings.HasPrefix(obj.GetName(), prefix) {
						w.Edit(trustbundle.Bundles, "", obj.GetName(), func(obj client.Object) {
							obj.(*certificatesv1.ClusterTrustBundle).Spec.TrustBundle = older
						})
					}
				}
			case 2:
				for _, obj := range w.List(trustbundle.Bundles) {
					if strings.HasPrefix(obj.GetName(), prefix) {
						w.Delete(trustbundle.Bundles, "", obj.GetName(), metav1.DeleteOptions{})
					}
				}
			}
		},
		End: func(w *controllertest.World) string {
			return w.Lines(trustbundle.Bundles, func(obj client.Object) string {
				b := obj.(*certificatesv1.ClusterTrustBundle)
				return fmt.Sprint(b.Name, " ", b.Spec.SignerName, " ", b.Spec.TrustBundle == ours)
			})
		},
		Check: func(w *controllertest.World) error {
			all := w.List(trustbundle.Bundles)
			if len(all) != 3 {
				return fmt.Errorf("%d bundles, want the published one and two of others", len(all))
			}
			if b := all[1].(*certificatesv1.ClusterTrustBundle); !strings.HasPrefix(b.Name, prefix) || b.Spec.TrustBundle != ours {
				return fmt.Errorf("published is %s", b.Name)
			}
			return nil
		},
	})
}
