package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// The groups that tell whether somebody is known.
const (
	Authenticated   = "system:authenticated"
	Unauthenticated = "system:unauthenticated"
)

// AnonymousUser is who sends a request without credentials.
func AnonymousUser() *User {
	return &User{Name: Anonymous, Groups: []string{Unauthenticated}}
}

// ClientCerts knows users by client certificate: the common name is the user,
// the organizations are its groups.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
//
// A certificate is verified once, not once a request: crypto/tls hands out the
// same *x509.Certificate for every request of a connection, and for every
// connection that shows the same certificate while one of them lives, so the
// pointer is the key to what was found out about it.
type ClientCerts struct {
	roots *x509.CertPool

	mu struct {
		sync.RWMutex
		seen map[*x509.Certificate]verified
	}
}

type verified struct {
	user  *User
	until time.Time // the earliest end in the chain
}

// maxSeen bounds the memory of ClientCerts; beyond it, it forgets everything
// and verifies again.
const maxSeen = 1024

// NewClientCerts trusts the certificates that roots signed.
func NewClientCerts(roots *x509.CertPool) *ClientCerts {
	c := &ClientCerts{roots: roots}
	c.mu.seen = map[*x509.Certificate]verified{}
	return c
}

// Authenticate implements Authenticator.
func (c *ClientCerts) Authenticate(r *http.Request) (*User, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	leaf, now := r.TLS.PeerCertificates[0], time.Now()
	c.mu.RLock()
	v, ok := c.mu.seen[leaf]
	c.mu.RUnlock()
	if ok && now.Before(v.until) {
		return v.user, nil
	}
	v, err := c.verify(r.TLS.PeerCertificates)
	if err != nil {
		return nil, fmt.Errorf("client certificate of %q, serial %s: %w", leaf.Subject.CommonName, leaf.SerialNumber, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.seen) >= maxSeen {
		clear(c.mu.seen)
	}
	c.mu.seen[leaf] = v
	return v.user, nil
}

func (c *ClientCerts) verify(certs []*x509.Certificate) (verified, error) {
	between := x509.NewCertPool()
	for _, cert := range certs[1:] {
		between.AddCert(cert)
	}
	chains, err := certs[0].Verify(x509.VerifyOptions{
		Roots:         c.roots,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return verified{}, err
	}
	subject := certs[0].Subject
	if subject.CommonName == "" {
		return verified{}, errors.New("it names no user (the common name is empty)")
	}
	// By its hash a certificate can be found again in what was logged.
	hash := sha256.Sum256(certs[0].Raw)
	v := verified{user: &User{
		Name:   subject.CommonName,
		Groups: withAuthenticated(subject.Organization),
		Extra:  map[string][]string{ExtraCredentialID: {"X509SHA256=" + hex.EncodeToString(hash[:])}},
	}}
	for _, cert := range chains[0] {
		if v.until.IsZero() || cert.NotAfter.Before(v.until) {
			v.until = cert.NotAfter
		}
	}
	return v, nil
}

func withAuthenticated(groups []string) []string {
	out := make([]string, 0, len(groups)+1)
	for _, g := range groups {
		if g != Authenticated {
			out = append(out, g)
		}
	}
	return append(out, Authenticated)
}
