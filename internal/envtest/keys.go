package envtest

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/keyutil"

	"github.com/setpoint-project/setpoint/internal/pki"
)

// serving is the certificate that the flags name, else the one that lies in
// the certificate folder, else nil.
func (f *serverFlags) serving() (*pki.Pair, error) {
	cert, key := f.certFile, f.keyFile
	if cert == "" || key == "" {
		if f.certDir == "" {
			return nil, nil
		}
		cert, key = filepath.Join(f.certDir, "apiserver.crt"), filepath.Join(f.certDir, "apiserver.key")
		if _, err := os.Stat(cert); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	loaded, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	signer, ok := loaded.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: a key of type %T cannot sign", key, loaded.PrivateKey)
	}
	return &pki.Pair{
		Cert: loaded.Leaf, Key: signer, Chain: loaded.Certificate,
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: loaded.Leaf.Raw}),
	}, nil
}

// certificates reads all certificates of a PEM file.
func certificates(path string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return certs, nil
}

// publicKeys reads public keys, from certificates and private keys as well.
func publicKeys(path string) ([]crypto.PublicKey, error) {
	keys, err := keyutil.PublicKeysFromFile(path)
	if err != nil {
		return nil, err
	}
	out := make([]crypto.PublicKey, len(keys))
	for i, k := range keys {
		out[i] = k
	}
	return out, nil
}

func privateKey(path string) (crypto.Signer, error) {
	key, err := keyutil.PrivateKeyFromFile(path)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: a key of type %T cannot sign", path, key)
	}
	return signer, nil
}
