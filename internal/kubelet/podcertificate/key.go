package podcertificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// keyTypes are the names that the API gives to keys.
// https://kubernetes.io/docs/concepts/storage/projected-volumes/#podcertificate
var keyTypes = map[string]func() (crypto.Signer, error){
	"RSA3072":   func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 3072) },
	"RSA4096":   func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 4096) },
	"ECDSAP256": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
	"ECDSAP384": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
	"ECDSAP521": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
	"ED25519": func() (crypto.Signer, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	},
}

// newKey makes a key of a type.
func newKey(keyType string) (crypto.Signer, error) {
	generate := keyTypes[keyType]
	if generate == nil {
		return nil, fmt.Errorf("keys of type %q are not supported", keyType)
	}
	return generate()
}

// stub is a certificate request (PKCS #10, DER) that says nothing but which key
// it is for, and is signed with it. Who the pod is stands in the API object,
// where the API server has checked it.
func stub(key crypto.Signer) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

// encodeKey writes a key as PKCS #8 in PEM.
func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// encodeChain writes a chain as a signer gave it, without headers and what
// stands between its blocks.
func encodeChain(chain string) []byte {
	out := bytes.Buffer{}
	for block, rest := pem.Decode([]byte(chain)); block != nil; block, rest = pem.Decode(rest) {
		_ = pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}) // a buffer takes everything
	}
	return out.Bytes()
}
