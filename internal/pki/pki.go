// Package pki makes and keeps the keys and certificates of a cluster: one
// certificate authority, a serving certificate for the API server, a client
// certificate for each of the cluster's own identities, serving certificates
// for kubelets, and the key that signs service account tokens.
//
// Everything lies in one directory, a PEM file for each identity that holds
// the certificate and its key together, so that one rename replaces both and
// no crash can leave a key beside the wrong certificate. Files are 0600.
//
//	DATA/pki/ca.pem          the authority            } written durably: losing
//	DATA/pki/sa.pem          service account key      } them would lock clients out
//	DATA/pki/ca.crt          its certificate alone, for people and other tools
//	DATA/pki/NAME.pem        leaves; issued again whenever one is missing, torn,
//	                         near its end, or not for what is asked
//
// Every function is idempotent: with nothing to mend, nothing is written. An
// Authority may be used from many goroutines, and several processes may open
// the same directory at once; a file lock lets one write at a time.
//
// A damaged ca.pem or sa.pem is an error and is never replaced: that would
// silently cut off every client of the cluster.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	// renewBefore is how long before its end a leaf is issued again.
	renewBefore = 60 * 24 * time.Hour
	// clockSkew is how far in the past certificates begin, for peers whose
	// clock is behind.
	clockSkew = 5 * time.Minute
)

// Authority issues the certificates of one cluster.
type Authority struct {
	dir    string
	cert   *x509.Certificate
	key    crypto.Signer
	pem    []byte
	pool   *x509.CertPool
	saOnce sync.Mutex
	saKey  *ecdsa.PrivateKey
}

// Open loads the authority that lies in dir, or makes one.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	path := filepath.Join(dir, "ca.pem")
	pair, err := readPair(path)
	if os.IsNotExist(err) {
		pair, err = makeCA(dir, path)
	}
	if err != nil {
		return nil, fmt.Errorf("pki: certificate authority: %w (it is not replaced, because every client trusts it; restore %s, or remove it to start a new authority)", err, path)
	}
	if !pair.Cert.IsCA {
		return nil, fmt.Errorf("pki: %s does not hold a certificate authority", path)
	}
	a := &Authority{dir: dir, cert: pair.Cert, key: pair.Key, pem: pair.CertPEM, pool: x509.NewCertPool()}
	a.pool.AddCert(pair.Cert)
	return a, nil
}

func makeCA(dir, path string) (*Pair, error) {
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another process may have been quicker.
	if pair, err := readPair(path); !os.IsNotExist(err) {
		return pair, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber: serial(),
		// The time makes authorities of different clusters tell apart in
		// error messages.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("setpoint-ca@%d", now.Unix())},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, err
	}
	pair, err := newPair(key, der)
	if err != nil {
		return nil, err
	}
	if err := WriteFile(filepath.Join(dir, "ca.crt"), pair.CertPEM, 0o644, false); err != nil {
		return nil, err
	}
	return pair, WriteFile(path, pair.encode(), 0o600, true)
}

// CAPEM is the authority's certificate.
func (a *Authority) CAPEM() []byte { return a.pem }

// CA is the authority's certificate.
func (a *Authority) CA() *x509.Certificate { return a.cert }

// Pool holds the authority alone.
func (a *Authority) Pool() *x509.CertPool { return a.pool }

// Hash names the authority: the hexadecimal SHA-256 of its certificate.
func (a *Authority) Hash() string { return hashOf(a.cert) }

func hashOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// ServiceAccountKey is the key that signs service account tokens.
func (a *Authority) ServiceAccountKey() (*ecdsa.PrivateKey, error) {
	a.saOnce.Lock()
	defer a.saOnce.Unlock()
	if a.saKey != nil {
		return a.saKey, nil
	}
	path := filepath.Join(a.dir, "sa.pem")
	key, err := readKey(path)
	if os.IsNotExist(err) {
		key, err = a.makeServiceAccountKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("pki: service account key: %w", err)
	}
	a.saKey = key
	return key, nil
}

func (a *Authority) makeServiceAccountKey(path string) (*ecdsa.PrivateKey, error) {
	unlock, err := lock(a.dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if key, err := readKey(path); !os.IsNotExist(err) {
		return key, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return key, WriteFile(path, encodeKey(key), 0o600, true)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, not an ECDSA key", path, key)
	}
	return ec, nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f           // a serial number is positive
	return new(big.Int).SetBytes(b[:])
}
