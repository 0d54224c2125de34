package webhook

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
	"github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1alpha1"
)

// api is the API server of these tests, which asks the webhooks served here.
// They install the definition themselves.
var (
	api    client.WithWatch
	config *rest.Config
	env    = &envtest.Environment{WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"../config/webhooks.yaml"}}}
	warned warnings
)

// warnings are what the API server warned of.
type warnings struct {
	mu   sync.Mutex
	text []string // guarded by mu
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// of tells whether there was such a warning.
func (w *warnings) of(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.text, text)
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, databasev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 0, err
		}
	}
	if config, err = env.Start(); err != nil {
		return 0, err
	}
	defer env.Stop()
	config.WarningHandler = &warned
	if api, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	o := env.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhookserver.NewServer(webhookserver.Options{Host: o.LocalServingHost, Port: o.LocalServingPort, CertDir: o.LocalServingCertDir})})
	if err != nil {
		return 0, err
	}
	if err := SetupWithManager(manager); err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	defer func() {
		stop()
		<-ended
	}()
	return m.Run(), nil
}

// eventually waits until look finds nothing to complain about.
func eventually(t *testing.T, look func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute) // only decides how long a failing test takes
	for {
		err := look()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// definition is config/crd.yaml, with its conversion pointed here.
func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile("../config/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, d); err != nil {
		t.Fatal(err)
	}
	o := env.WebhookInstallOptions
	d.Spec.Conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{CABundle: o.LocalServingCAData,
		URL: new("https://" + net.JoinHostPort(o.LocalServingHost, strconv.Itoa(o.LocalServingPort)) + "/convert")}
	return d
}

// release makes the definition that of the API server, and waits until it is
// served as it says.
func release(t *testing.T, want *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	eventually(t, func() error {
		d := &apiextensionsv1.CustomResourceDefinition{}
		err := api.Get(t.Context(), client.ObjectKeyFromObject(want), d)
		if apierrors.IsNotFound(err) {
			return api.Create(t.Context(), want.DeepCopy())
		} else if err != nil {
			return err
		}
		d.Spec = *want.Spec.DeepCopy()
		return api.Update(t.Context(), d)
	})
	for _, v := range want.Spec.Versions {
		eventually(t, func() error {
			gvk := databasev1.GroupVersion.WithKind("PostgresClusterList")
			gvk.Version = v.Name
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(gvk)
			err := api.List(t.Context(), list)
			if v.Served {
				return err
			}
			if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is served: %v", v.Name, err)
			}
			return nil
		})
	}
}

// ready waits until the webhooks answer: a claim that only they refuse is.
func ready(t *testing.T) {
	t.Helper()
	release(t, definition(t))
	eventually(t, func() error {
		c := claim("probe")
		c.Spec.Parameters = map[string]string{"port": "1"}
		if err := api.Create(t.Context(), c, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the webhooks do not answer: %v", err)
		}
		return nil
	})
}
