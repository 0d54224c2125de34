package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// Pair is a certificate with its key.
type Pair struct {
	Cert    *x509.Certificate
	Key     crypto.Signer
	CertPEM []byte
	KeyPEM  []byte
	// Chain is sent to peers: the leaf, and after it the authority, so that a
	// node that joins can check the authority against the hash it was given.
	Chain [][]byte
}

// TLS is the pair as crypto/tls wants it.
func (p *Pair) TLS() *tls.Certificate {
	return &tls.Certificate{Certificate: p.Chain, PrivateKey: p.Key, Leaf: p.Cert}
}

func (p *Pair) encode() []byte {
	return append(append([]byte(nil), p.CertPEM...), p.KeyPEM...)
}

func newPair(key *ecdsa.PrivateKey, der []byte) (*Pair, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Pair{
		Cert:    cert,
		Key:     key,
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:  encodeKey(key),
		Chain:   [][]byte{der},
	}, nil
}

func encodeKey(key crypto.Signer) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // only for key types that this package never makes
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// readPair reads a file of one certificate and its key, in any order.
func readPair(path string) (*Pair, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parsePair(path, data)
}

func parsePair(path string, data []byte) (*Pair, error) {
	p := &Pair{}
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		switch block.Type {
		case "CERTIFICATE":
			if p.Cert != nil {
				continue
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			p.Cert, p.CertPEM, p.Chain = cert, pem.EncodeToMemory(block), [][]byte{block.Bytes}
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			signer, ok := key.(crypto.Signer)
			if !ok {
				return nil, fmt.Errorf("%s: a key of type %T cannot sign", path, key)
			}
			p.Key, p.KeyPEM = signer, pem.EncodeToMemory(block)
		}
	}
	if p.Cert == nil || p.Key == nil {
		return nil, fmt.Errorf("%s holds no certificate with its key", path)
	}
	if !samePublicKey(p.Cert.PublicKey, p.Key.Public()) {
		return nil, fmt.Errorf("%s: the key is not that of the certificate", path)
	}
	return p, nil
}

func samePublicKey(a, b crypto.PublicKey) bool {
	x, err := x509.MarshalPKIXPublicKey(a)
	if err != nil {
		return false
	}
	y, err := x509.MarshalPKIXPublicKey(b)
	return err == nil && bytes.Equal(x, y)
}
