package pki

import (
	"crypto/tls"
	"sync"
	"time"
)

// Rotating hands out a certificate, and a fresh one in time before it ends: a
// server that runs for years never serves an expired one.
type Rotating struct {
	issue func() (*Pair, error)

	mu struct {
		sync.Mutex
		pair *Pair
		tls  *tls.Certificate
		next time.Time // when to ask again
	}
}

// NewRotating issues the first certificate. issue is idempotent: it returns
// the same certificate until that is near its end (all of Authority's do).
func NewRotating(issue func() (*Pair, error)) (*Rotating, error) {
	r := &Rotating{issue: issue}
	pair, err := issue()
	if err != nil {
		return nil, err
	}
	r.setLocked(pair, time.Now())
	return r, nil
}

func (r *Rotating) setLocked(p *Pair, now time.Time) {
	r.mu.pair, r.mu.tls = p, p.TLS()
	r.mu.next = p.Cert.NotAfter.Add(-renewBefore)
	if !r.mu.next.After(now) {
		r.mu.next = now.Add(time.Hour) // the authority itself ends soon
	}
}

// Pair is the current certificate.
func (r *Rotating) Pair() *Pair {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked()
	return r.mu.pair
}

func (r *Rotating) refreshLocked() {
	now := time.Now()
	if now.Before(r.mu.next) {
		return
	}
	pair, err := r.issue()
	if err != nil {
		// The old one is good for weeks yet; ask again soon.
		r.mu.next = now.Add(time.Hour)
		return
	}
	r.setLocked(pair, now)
}

func (r *Rotating) current() *tls.Certificate {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked()
	return r.mu.tls
}

// GetCertificate is for a server's tls.Config.
func (r *Rotating) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return r.current(), nil
}

// GetClientCertificate is for a client's tls.Config.
func (r *Rotating) GetClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return r.current(), nil
}
