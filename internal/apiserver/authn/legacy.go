package authn

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
)

// LegacyIssuer issues the tokens that lie in Secrets of the type
// kubernetes.io/service-account-token: for ever, for no audience, and good as
// long as the Secret holds them.
// https://kubernetes.io/docs/concepts/configuration/secret/#serviceaccount-token-secrets
const LegacyIssuer = "kubernetes/serviceaccount"

// LegacyInvalid marks a Secret whose token nobody used for long: it is taken no
// more, and deleted if nobody misses it.
const LegacyInvalid = "kubernetes.io/legacy-token-invalid-since"

// LegacyClaims are what the token of a Secret says, besides issuer and subject.
type LegacyClaims struct {
	Namespace   string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	SecretName  string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	AccountName string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	AccountUID  string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}

// SignLegacy returns the token that a Secret is to hold for an account.
func (s *Signer) SignLegacy(secret *corev1.Secret, account *corev1.ServiceAccount) (string, error) {
	return jwt.Signed(s.signer).
		Claims(jwt.Claims{Issuer: LegacyIssuer, Subject: ServiceAccountPrefix + account.Namespace + ":" + account.Name}).
		Claims(LegacyClaims{Namespace: account.Namespace, SecretName: secret.Name, AccountName: account.Name, AccountUID: string(account.UID)}).
		Serialize()
}

func (l *LegacyClaims) check(subject string) error {
	switch {
	case l.Namespace == "" || l.AccountName == "" || l.AccountUID == "" || l.SecretName == "":
		return errors.New("it names no service account and Secret")
	case subject != ServiceAccountPrefix+l.Namespace+":"+l.AccountName:
		return errors.New("its subject is not its service account")
	}
	return nil
}

// legacy finds the user of a token that a Secret holds.
func (s *ServiceAccounts) legacy(ctx context.Context, token string, c *Claims, audiences []string) (*User, []string, error) {
	good, err := implicit(s.audiences, audiences)
	if err != nil {
		return nil, nil, err
	}
	l := &c.LegacyClaims
	obj, err := s.get(ctx, client.Secrets, l.Namespace, l.SecretName)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("bearer token: look up secret %q: %w", l.SecretName, err)
	}
	secret, ok := obj.(*corev1.Secret)
	switch {
	case err != nil || !ok || secret.DeletionTimestamp != nil && secret.DeletionTimestamp.Add(leeway).Before(time.Now()):
		return nil, nil, fmt.Errorf("bearer token: secret %q has been deleted", l.SecretName)
	case subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) != 1:
		return nil, nil, fmt.Errorf("bearer token: secret %q does not hold it any more", l.SecretName)
	case secret.Labels[LegacyInvalid] != "":
		return nil, nil, fmt.Errorf("bearer token: nobody used the token in secret %s/%s for long, so it is not taken since %s; take the label %s off to use it again",
			l.Namespace, l.SecretName, secret.Labels[LegacyInvalid], LegacyInvalid)
	}
	if err := s.exists(ctx, "serviceaccounts", l.Namespace, &Object{Name: l.AccountName, UID: l.AccountUID}); err != nil {
		return nil, nil, err
	}
	if s.Used != nil {
		s.Used(ctx, secret)
	}
	return accountUser(c.Subject, l.Namespace, l.AccountUID), good, nil
}

// accountUser is the user that an account is.
func accountUser(name, namespace, uid string) *User {
	return &User{Name: name, UID: uid, Groups: []string{ServiceAccountsGroup, ServiceAccountsGroup + ":" + namespace, Authenticated}}
}
