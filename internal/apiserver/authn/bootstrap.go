package authn

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/bootstraptoken"
	"github.com/setpoint-project/setpoint/internal/client"
)

// BootstrapTokens knows machines that have no identity yet by the bootstrap
// token that they were given.
// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
//
// Nothing is remembered: a token is good as long as its Secret says so.
type BootstrapTokens struct {
	Get       GetFunc
	Audiences []string // that the API server answers to
}

// errBootstrap does not tell what is wrong: who guesses must not learn whether
// there is a token of that id.
var errBootstrap = errors.New("invalid bearer token")

// AuthenticateToken implements TokenAuthenticator.
func (b *BootstrapTokens) AuthenticateToken(ctx context.Context, token string, audiences []string) (*User, []string, error) {
	id, secret, ok := bootstraptoken.Split(token)
	if !ok {
		return nil, nil, nil
	}
	obj, err := b.Get(ctx, client.Secrets, bootstraptoken.Namespace, bootstraptoken.Prefix+id)
	if apierrors.IsNotFound(err) {
		return nil, nil, errBootstrap
	}
	if err != nil {
		return nil, nil, fmt.Errorf("bootstrap token: %w", err)
	}
	s, ok := obj.(*corev1.Secret)
	if !ok || s.DeletionTimestamp != nil {
		return nil, nil, errBootstrap
	}
	t, err := bootstraptoken.Read(s)
	if err != nil || !t.Authenticates || t.Expired(time.Now()) || subtle.ConstantTimeCompare([]byte(t.Secret), []byte(secret)) != 1 {
		return nil, nil, errBootstrap
	}
	good, err := implicit(b.Audiences, audiences)
	if err != nil {
		return nil, nil, err
	}
	return &User{Name: bootstraptoken.UserPrefix + id, Groups: append(t.Groups, Authenticated)}, good, nil
}

// implicit is for which of the audiences that are asked for a token is good
// that names none: for the API server's own.
func implicit(own, asked []string) ([]string, error) {
	if asked == nil {
		return own, nil
	}
	var good []string
	for _, a := range asked {
		if slices.Contains(own, a) {
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", own, asked)
	}
	return good, nil
}

// Tokens asks one after the other whose a token is. The first that knows it,
// or knows it to be bad, has the word.
type Tokens []TokenAuthenticator

// AuthenticateToken implements TokenAuthenticator.
func (t Tokens) AuthenticateToken(ctx context.Context, token string, audiences []string) (*User, []string, error) {
	for _, one := range t {
		if u, good, err := one.AuthenticateToken(ctx, token, audiences); u != nil || err != nil {
			return u, good, err
		}
	}
	return nil, nil, errors.New("invalid bearer token")
}
