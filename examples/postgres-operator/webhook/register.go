package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Certificate makes a certificate for the host of a URL, good for a year, and
// writes it to dir as a webhook server wants it, tls.crt and tls.key. The
// certificate is its own authority, and returned in PEM.
func Certificate(dir string, at *url.URL) (ca []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "postgres-operator"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(at.Hostname()); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{at.Hostname()}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), ca, 0o600); err != nil {
		return nil, err
	}
	return ca, os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}

// name of the webhook configurations, and of the definition.
const name, crd = "postgres-operator", "postgresclusters.database.example.com"

// Register points the API server to the webhooks at a URL: those of
// config/webhooks.yaml, and the conversion of config/crd.yaml.
func Register(ctx context.Context, c client.Client, at *url.URL, ca []byte) error {
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	moved := func(to *admissionregistrationv1.WebhookClientConfig) {
		path := at.Path
		if to.Service != nil && to.Service.Path != nil {
			path = *to.Service.Path
		} else if had, err := url.Parse(ptr(to.URL)); err == nil {
			path = had.Path
		}
		*to = admissionregistrationv1.WebhookClientConfig{URL: new(at.JoinPath(path).String()), CABundle: ca}
	}
	for _, one := range []struct {
		name   string
		object client.Object
		point  func()
	}{
		{name, mutating, func() {
			for i := range mutating.Webhooks {
				moved(&mutating.Webhooks[i].ClientConfig)
			}
		}},
		{name, validating, func() {
			for i := range validating.Webhooks {
				moved(&validating.Webhooks[i].ClientConfig)
			}
		}},
		{crd, definition, func() {
			definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{ConversionReviewVersions: []string{"v1"},
					ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: new(at.JoinPath("convert").String()), CABundle: ca}}}
		}},
	} {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := c.Get(ctx, client.ObjectKey{Name: one.name}, one.object); err != nil {
				return err
			}
			one.point()
			return c.Update(ctx, one.object)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func ptr(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
