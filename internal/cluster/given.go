package cluster

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// Given is what a control plane takes from outside instead of making it itself
// (envtest brings certificates and keys of its own). The zero value gives
// nothing.
type Given struct {
	// Serving is what the API server shows to clients.
	Serving *pki.Pair
	// ClientCAs sign client certificates, besides our own authority.
	ClientCAs []*x509.Certificate
	// Issuer of service account tokens, the key that signs them, and the keys
	// whose signatures are taken.
	Issuer string
	Signer crypto.Signer
	Keys   []crypto.PublicKey
	// Authenticators are asked when ours do not know the user.
	Authenticators []authn.Authenticator
	// AllowAll lets everybody do everything.
	AllowAll bool
	// WithoutAdmission names admission plugins to leave out.
	WithoutAdmission []string
}

// signing is how service account tokens are made and known.
func (c *controlPlane) signing() (from string, signer crypto.Signer, keys []crypto.PublicKey, err error) {
	given := &c.opts.Given
	from, signer, keys = given.Issuer, given.Signer, given.Keys
	if from == "" {
		from = issuer
	}
	if signer == nil {
		if signer, err = c.authority.ServiceAccountKey(); err != nil {
			return "", nil, nil, err
		}
	}
	if len(keys) == 0 {
		keys = []crypto.PublicKey{signer.Public()}
	}
	return from, signer, keys, nil
}

// clientCAs are whose client certificates are believed.
func (c *controlPlane) clientCAs() *x509.CertPool {
	pool := c.authority.Pool()
	if len(c.opts.Given.ClientCAs) == 0 {
		return pool
	}
	pool = pool.Clone()
	for _, ca := range c.opts.Given.ClientCAs {
		pool.AddCert(ca)
	}
	return pool
}

// authenticators find out who sends a request.
func (c *controlPlane) authenticators(bearers authn.TokenAuthenticator) []authn.Authenticator {
	ours := []authn.Authenticator{authn.NewClientCerts(c.clientCAs())}
	// A bearer token that one does not know may be another's: ours come last,
	// and their refusal stands.
	ours = append(ours, c.opts.Given.Authenticators...)
	return append(ours, authn.Bearer{Tokens: bearers})
}

// allowAll is the authorization mode AlwaysAllow.
type allowAll struct{}

func (allowAll) Authorize(context.Context, *authz.Attributes) (bool, string) { return true, "" }

// authorizer is ours unless everything is allowed.
func (c *controlPlane) authorizer(ours authz.Authorizer) authz.Authorizer {
	if c.opts.Given.AllowAll {
		return allowAll{}
	}
	return ours
}

// plugins are those that are not left out.
func (c *controlPlane) plugins(all []admission.Plugin) []admission.Plugin {
	return slices.DeleteFunc(all, func(p admission.Plugin) bool {
		return slices.Contains(c.opts.Given.WithoutAdmission, p.Name())
	})
}

// serverTLS is how the API server listens.
func (c *controlPlane) serverTLS() *tls.Config {
	cfg := c.authority.ServerTLS(c.serving)
	cfg.ClientCAs = c.clientCAs() // a client shows only what these may have signed
	return cfg
}

// servingCA is by whom clients know the API server: our authority, or the very
// certificate that was given.
func (c *controlPlane) servingCA() []byte {
	if given := c.opts.Given.Serving; given != nil {
		return given.CertPEM
	}
	return c.authority.CAPEM()
}

// selfTLS is how the API server's readiness is asked for: by the very
// certificate that it serves with, whoever signed it and for what name.
func (c *controlPlane) selfTLS(own *pki.Pair) *tls.Config {
	return &tls.Config{
		Certificates:       []tls.Certificate{*own.TLS()},
		InsecureSkipVerify: true, // VerifyConnection does
		VerifyConnection: func(s tls.ConnectionState) error {
			if !bytes.Equal(s.PeerCertificates[0].Raw, c.serving.Pair().Cert.Raw) {
				return errors.New("another server has the API server's address")
			}
			return nil
		},
	}
}
