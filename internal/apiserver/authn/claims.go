package authn

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Claims are what a service account token says.
type Claims struct {
	jwt.Claims
	Kubernetes KubernetesClaims `json:"kubernetes.io"`
	// LegacyClaims stand in the tokens of LegacyIssuer instead.
	LegacyClaims
}

// KubernetesClaims say whose token it is and to what its life is bound.
type KubernetesClaims struct {
	Namespace      string  `json:"namespace,omitempty"`
	ServiceAccount Object  `json:"serviceaccount"`
	Pod            *Object `json:"pod,omitempty"`
	Secret         *Object `json:"secret,omitempty"`
	// Node is what the token is bound to when it is bound to neither pod nor
	// secret; else it only tells where the pod runs.
	Node *Object `json:"node,omitempty"`
}

// Object names one object for all time.
type Object struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Signer signs service account tokens.
type Signer struct {
	// Issuer is the URL under which the public key can be looked up.
	Issuer string
	signer jose.Signer
	key    jose.JSONWebKey
}

// NewSigner signs with an ECDSA P-256 or an RSA key.
func NewSigner(issuer string, key crypto.Signer) (*Signer, error) {
	public, err := publicKey(key.Public())
	if err != nil {
		return nil, err
	}
	alg := jose.SignatureAlgorithm(public.Algorithm)
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: alg,
		Key:       jose.JSONWebKey{Key: key, KeyID: public.KeyID, Algorithm: public.Algorithm, Use: "sig"},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("service account tokens: %w", err)
	}
	return &Signer{Issuer: issuer, signer: signer, key: public}, nil
}

// Sign returns the token that says c. It sets the issuer.
func (s *Signer) Sign(c *Claims) (string, error) {
	said := *c
	said.Issuer = s.Issuer
	return jwt.Signed(s.signer).Claims(said).Serialize()
}

// Key is the public key, for those who check tokens themselves.
func (s *Signer) Key() jose.JSONWebKey { return s.key }

// publicKey gives a key the identity that upstream gives it: the hash of its
// encoded public part.
func publicKey(key crypto.PublicKey) (jose.JSONWebKey, error) {
	alg := jose.ES256
	switch key.(type) {
	case *rsa.PublicKey:
		alg = jose.RS256
	case *ecdsa.PublicKey:
	default:
		return jose.JSONWebKey{}, fmt.Errorf("service account tokens: a key of type %T cannot sign them", key)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("service account tokens: %w", err)
	}
	sum := sha256.Sum256(der)
	return jose.JSONWebKey{
		Key:       key,
		KeyID:     base64.RawURLEncoding.EncodeToString(sum[:]),
		Algorithm: string(alg),
		Use:       "sig",
	}, nil
}
