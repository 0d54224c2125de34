package aggregation

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Where servers behind a service find whom to trust.
const (
	configNamespace = "kube-system"
	configName      = "extension-apiserver-authentication"
	proxyName       = "front-proxy-client"
)

// identity is the certificate by which servers know the front door.
type identity struct {
	authority []byte // in PEM
	pair      tls.Certificate
}

// newIdentity makes an authority for this one certificate: what it signs says
// on whose behalf a request is made, so nobody else may have one.
func newIdentity() (*identity, error) {
	now := time.Now().Add(-time.Hour)
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy-ca"}, NotBefore: now, NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: proxyName}, NotBefore: now, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, err
	}
	return &identity{
		authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		pair:      tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}, nil
}

// config is what servers behind a service are told.
func (id *identity) config(clientCA []byte) map[string]string {
	list := func(values ...string) string {
		data, _ := json.Marshal(values) // strings never fail
		return string(data)
	}
	out := map[string]string{
		"requestheader-allowed-names":        list(proxyName),
		"requestheader-client-ca-file":       string(id.authority),
		"requestheader-username-headers":     list("X-Remote-User"),
		"requestheader-uid-headers":          list("X-Remote-Uid"),
		"requestheader-group-headers":        list("X-Remote-Group"),
		"requestheader-extra-headers-prefix": list("X-Remote-Extra-"),
	}
	if len(clientCA) > 0 {
		out["client-ca-file"] = string(clientCA)
	}
	return out
}

// tellConfig writes the ConfigMap.
func tellConfig(ctx context.Context, c client.Interface, data map[string]string) error {
	had, err := client.Get[*corev1.ConfigMap](ctx, c, client.ConfigMaps, configNamespace, configName)
	switch {
	case apierrors.IsNotFound(err):
		_, err = c.Create(ctx, client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: configNamespace, Name: configName}, Data: data})
	case err == nil && !maps.Equal(had.Data, data):
		next := had.DeepCopy()
		next.Data = data
		_, err = c.Update(ctx, client.ConfigMaps, next)
	}
	if err != nil {
		return fmt.Errorf("write the ConfigMap %s: %w", configName, err)
	}
	return nil
}
