// Command postgres-operator turns the loop that makes PostgresClusters true,
// and serves the webhooks that default, check and convert them:
//
//	kubectl apply -f config/crd.yaml -f config/webhooks.yaml
//	go run . --webhook-url https://127.0.0.1:9443
//	kubectl apply -f config/example.yaml
//
// In a cluster it serves them behind the Service that config/ names, with a
// certificate that somebody (cert-manager, say) puts into --webhook-certs.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
	"github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1alpha1"
	"github.com/setpoint-project/setpoint/examples/postgres-operator/controller"
	"github.com/setpoint-project/setpoint/examples/postgres-operator/webhook"
)

type options struct{ home, metrics, certs, url string }

func main() {
	var o options
	flag.StringVar(&o.home, "home", "default", "the operator's own `namespace`")
	flag.StringVar(&o.metrics, "metrics", "0", "`address` to serve metrics at; 0: none")
	flag.StringVar(&o.certs, "webhook-certs", "", "`folder` with tls.crt and tls.key of the webhooks")
	flag.StringVar(&o.url, "webhook-url", "", "make a certificate, and tell the API server to ask the webhooks at this `URL`, which leads here")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		ctrl.Log.Error(err, "the operator ended")
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, databasev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	serving := webhookserver.Options{CertDir: o.certs}
	if o.url != "" {
		direct, err := client.New(config, client.Options{Scheme: scheme})
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "postgres-operator-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if serving, err = registered(ctx, direct, dir, o.url); err != nil {
			return err
		}
	}
	m, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, LeaderElection: true, LeaderElectionID: "postgres-operator", LeaderElectionNamespace: o.home,
		Metrics: server.Options{BindAddress: o.metrics}, WebhookServer: webhookserver.NewServer(serving)})
	if err != nil {
		return err
	}
	if err := (&controller.Reconciler{Client: m.GetClient(), Home: o.home}).SetupWithManager(m); err != nil {
		return err
	}
	if err := webhook.SetupWithManager(m); err != nil {
		return err
	}
	return m.Start(ctx)
}

// registered is how to serve webhooks at a URL that the API server is told.
func registered(ctx context.Context, c client.Client, dir, at string) (webhookserver.Options, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return webhookserver.Options{}, fmt.Errorf("--webhook-url %q: must be https://HOST:PORT", at)
	}
	port, err := strconv.Atoi(cmp.Or(u.Port(), "443"))
	if err != nil {
		return webhookserver.Options{}, fmt.Errorf("--webhook-url %q: %w", at, err)
	}
	ca, err := webhook.Certificate(dir, u)
	if err != nil {
		return webhookserver.Options{}, err
	}
	return webhookserver.Options{CertDir: dir, Port: port}, webhook.Register(ctx, c, u, ca)
}
