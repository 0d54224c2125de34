package authn

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Names of what a token tells beyond the user, as upstream has them.
const (
	ServiceAccountPrefix = "system:serviceaccount:"
	ServiceAccountsGroup = "system:serviceaccounts"

	ExtraPodName      = "authentication.kubernetes.io/pod-name"
	ExtraPodUID       = "authentication.kubernetes.io/pod-uid"
	ExtraNodeName     = "authentication.kubernetes.io/node-name"
	ExtraNodeUID      = "authentication.kubernetes.io/node-uid"
	ExtraCredentialID = "authentication.kubernetes.io/credential-id"
)

// GetFunc reads one object. It is called for every request with a token, so it
// must read from memory.
type GetFunc func(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error)

// ServiceAccounts knows service accounts by the tokens that this cluster
// signed.
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
//
// What a signature vouches for never changes, so each token's is checked once
// and remembered by the token's hash until it expires. Whether the account and
// what the token is bound to still live is looked up every time: deleting a
// pod ends its token at once, and not when some cache forgets it.
type ServiceAccounts struct {
	// Used, when not nil, is told of each use of a token that a Secret holds.
	// It is called in the request's way and must be quick as a rule.
	Used func(context.Context, *corev1.Secret)

	issuer    string
	audiences []string
	keys      map[string]crypto.PublicKey // by key id
	get       GetFunc

	mu struct {
		sync.RWMutex
		seen map[[sha256.Size]byte]*Claims
	}
}

// leeway for clocks that differ, and for objects that are being deleted.
const leeway = time.Minute

// maxTokens bounds the tokens remembered.
const maxTokens = 8192

// NewServiceAccounts accepts tokens of issuer signed by one of keys. audiences
// are what the API server answers to.
func NewServiceAccounts(issuer string, audiences []string, keys []crypto.PublicKey, get GetFunc) (*ServiceAccounts, error) {
	s := &ServiceAccounts{issuer: issuer, audiences: audiences, keys: map[string]crypto.PublicKey{}, get: get}
	s.mu.seen = map[[sha256.Size]byte]*Claims{}
	for _, key := range keys {
		k, err := publicKey(key)
		if err != nil {
			return nil, err
		}
		s.keys[k.KeyID] = key
	}
	return s, nil
}

// Audiences are what the API server answers to.
func (s *ServiceAccounts) Audiences() []string { return s.audiences }

// AuthenticateToken finds the user of a token that is good for one of
// audiences (nil: the API server's own), and for which of them it is good.
func (s *ServiceAccounts) AuthenticateToken(ctx context.Context, token string, audiences []string) (*User, []string, error) {
	claims, err := s.signed(token)
	if err != nil {
		return nil, nil, err
	}
	if claims.Issuer == LegacyIssuer {
		return s.legacy(ctx, token, claims, audiences)
	}
	if audiences == nil {
		audiences = s.audiences
	}
	var good []string
	for _, a := range audiences {
		if slices.Contains(claims.Audience, a) {
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return nil, nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", []string(claims.Audience), audiences)
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{Time: time.Now()}, leeway); err != nil {
		return nil, nil, err
	}
	if err := s.alive(ctx, &claims.Kubernetes); err != nil {
		return nil, nil, err
	}
	return claims.user(), good, nil
}

// signed returns what a token says if this cluster signed it.
func (s *ServiceAccounts) signed(token string) (*Claims, error) {
	hash := sha256.Sum256([]byte(token))
	s.mu.RLock()
	claims := s.mu.seen[hash]
	s.mu.RUnlock()
	if claims != nil {
		return claims, nil
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil {
		return nil, fmt.Errorf("bearer token: %w", err)
	}
	key, ok := s.keys[parsed.Headers[0].KeyID]
	if !ok {
		return nil, errors.New("bearer token: signed by an unknown key")
	}
	claims = &Claims{}
	if err := parsed.Claims(key, claims); err != nil {
		return nil, fmt.Errorf("bearer token: %w", err)
	}
	if err := s.check(claims); err != nil {
		return nil, fmt.Errorf("bearer token: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.seen) >= maxTokens {
		s.forgetLocked(time.Now())
	}
	s.mu.seen[hash] = claims
	return claims, nil
}

func (s *ServiceAccounts) forgetLocked(now time.Time) {
	for h, c := range s.mu.seen {
		if c.Expiry != nil && now.After(c.Expiry.Time()) {
			delete(s.mu.seen, h)
		}
	}
	if len(s.mu.seen) >= maxTokens {
		clear(s.mu.seen)
	}
}

// check looks at what does not change with time.
func (s *ServiceAccounts) check(c *Claims) error {
	k := &c.Kubernetes
	switch {
	case c.Issuer == LegacyIssuer:
		return c.LegacyClaims.check(c.Subject)
	case c.Issuer != s.issuer:
		return fmt.Errorf("issued by %q, not by %q", c.Issuer, s.issuer)
	case c.Expiry == nil:
		return errors.New("it never expires")
	case k.Namespace == "" || k.ServiceAccount.Name == "" || k.ServiceAccount.UID == "":
		return errors.New("it names no service account")
	case c.Subject != ServiceAccountPrefix+k.Namespace+":"+k.ServiceAccount.Name:
		return errors.New("its subject is not its service account")
	}
	return nil
}

// alive looks whether the account and what the token is bound to exist.
func (s *ServiceAccounts) alive(ctx context.Context, k *KubernetesClaims) error {
	if err := s.exists(ctx, "serviceaccounts", k.Namespace, &k.ServiceAccount); err != nil {
		return err
	}
	switch {
	case k.Secret != nil:
		return s.exists(ctx, "secrets", k.Namespace, k.Secret)
	case k.Pod != nil:
		return s.exists(ctx, "pods", k.Namespace, k.Pod)
	case k.Node != nil:
		return s.exists(ctx, "nodes", "", k.Node)
	}
	return nil
}

func (s *ServiceAccounts) exists(ctx context.Context, resource, namespace string, o *Object) error {
	res := schema.GroupVersionResource{Version: "v1", Resource: resource}
	got, err := s.get(ctx, res, namespace, o.Name)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("bearer token: %s %q has been deleted", strings.TrimSuffix(resource, "s"), o.Name)
	}
	if err != nil {
		return fmt.Errorf("bearer token: look up %s %q: %w", resource, o.Name, err)
	}
	if string(got.GetUID()) != o.UID {
		return fmt.Errorf("bearer token: %s %q is another one now (uid %s, the token says %s)", strings.TrimSuffix(resource, "s"), o.Name, got.GetUID(), o.UID)
	}
	if d := got.GetDeletionTimestamp(); d != nil && d.Add(leeway).Before(time.Now()) {
		return fmt.Errorf("bearer token: %s %q has been deleted", strings.TrimSuffix(resource, "s"), o.Name)
	}
	return nil
}

func (c *Claims) user() *User {
	k := &c.Kubernetes
	u := accountUser(c.Subject, k.Namespace, k.ServiceAccount.UID)
	u.Extra = map[string][]string{}
	if k.Pod != nil {
		u.Extra[ExtraPodName] = []string{k.Pod.Name}
		u.Extra[ExtraPodUID] = []string{k.Pod.UID}
	}
	if k.Node != nil {
		u.Extra[ExtraNodeName] = []string{k.Node.Name}
		if k.Node.UID != "" {
			u.Extra[ExtraNodeUID] = []string{k.Node.UID}
		}
	}
	if c.ID != "" {
		u.Extra[ExtraCredentialID] = []string{"JTI=" + c.ID}
	}
	if len(u.Extra) == 0 {
		u.Extra = nil
	}
	return u
}
