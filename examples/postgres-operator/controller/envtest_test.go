package controller

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/go-logr/logr"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
	"github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1alpha1"
	"github.com/setpoint-project/setpoint/examples/postgres-operator/webhook"
)

// api is the API server of these tests.
var api client.Client

// loops tells that the API server turns the built-in loops as well
// (`setpoint envtest --with-controllers`).
var loops = os.Getenv("WITH_CONTROLLERS") != ""

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
	for _, add := range []func(*runtime.Scheme) error{databasev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(clientgoscheme.Scheme); err != nil {
			return 0, err
		}
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../config/crd.yaml"}, ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"../config/webhooks.yaml"}}}
	config, err := env.Start()
	if err != nil {
		return 0, err
	}
	defer env.Stop()
	o := env.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhookserver.NewServer(webhookserver.Options{Host: o.LocalServingHost, Port: o.LocalServingPort, CertDir: o.LocalServingCertDir})})
	if err != nil {
		return 0, err
	}
	if err := (&Reconciler{Client: manager.GetClient(), Home: "default"}).SetupWithManager(manager); err != nil {
		return 0, err
	}
	if err := webhook.SetupWithManager(manager); err != nil {
		return 0, err
	}
	if api, err = client.New(config, client.Options{}); err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- manager.Start(ctx)
		close(ended)
	}()
	defer func() {
		stop()
		<-ended
	}()
	for manager.GetWebhookServer().StartedChecker()(nil) != nil {
		select {
		case err := <-ended:
			return 0, fmt.Errorf("the operator ended: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
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

// gone complains while an object is there.
func gone(t *testing.T, o client.Object) error {
	err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%T %s is still there", o, o.GetName())
}

// owned complains unless o is there and c is its controller.
func owned(t *testing.T, o, c client.Object) error {
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	if !metav1.IsControlledBy(o, c) {
		return fmt.Errorf("%T %s has owners %v", o, o.GetName(), o.GetOwnerReferences())
	}
	return nil
}
