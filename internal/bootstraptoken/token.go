// Package bootstraptoken reads bootstrap tokens: Secrets by which a machine that
// has no identity yet is let in to ask for one.
//
//	Secret kube-system/bootstrap-token-ID of type bootstrap.kubernetes.io/token
//	  --> "ID.SECRET" as a bearer token     (internal/apiserver/authn)
//	  --> signs kube-public/cluster-info    (internal/controllers/clusterinfo)
//	  --> gone when it has expired          (internal/controllers/bootstraptokencleaning)
//
// All functions are pure and may be used from many goroutines.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/.
package bootstraptoken

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Where the Secrets lie, and what they are called.
const (
	Namespace = "kube-system"
	Prefix    = "bootstrap-token-"
	Type      = corev1.SecretType("bootstrap.kubernetes.io/token")
)

// Names of users and groups.
const (
	UserPrefix = "system:bootstrap:"
	Group      = "system:bootstrappers"
)

// Keys of the Secrets' data.
const (
	keyID         = "token-id"
	keySecret     = "token-secret"
	keyExpiration = "expiration"
	keyAuth       = "usage-bootstrap-authentication"
	keySigning    = "usage-bootstrap-signing"
	keyGroups     = "auth-extra-groups"
)

// length of a token: id, dot, secret.
const length = 6 + 1 + 16

var (
	idForm     = regexp.MustCompile(`^[a-z0-9]{6}$`)
	secretForm = regexp.MustCompile(`^[a-z0-9]{16}$`)
	groupForm  = regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$`)
)

// Split takes a token apart; ok tells that it has the form of one, which
// nothing else that is a bearer token has.
func Split(token string) (id, secret string, ok bool) {
	if len(token) != length {
		return "", "", false // every request with a token comes here
	}
	id, secret, ok = strings.Cut(token, ".")
	return id, secret, ok && idForm.MatchString(id) && secretForm.MatchString(secret)
}

// Token is what a Secret says.
type Token struct {
	ID, Secret string
	// Authenticates and Signs are what it may be used for.
	Authenticates, Signs bool
	// Groups of the user, Group first; nothing that does not begin with Group.
	Groups []string
	// Expires is the zero time for never.
	Expires time.Time
}

// Read reads a Secret. One that does not say who it is by its name is no
// token, and one whose groups are wrong is not half a token.
func Read(s *corev1.Secret) (*Token, error) {
	t := &Token{
		ID: string(s.Data[keyID]), Secret: string(s.Data[keySecret]),
		Authenticates: string(s.Data[keyAuth]) == "true", Signs: string(s.Data[keySigning]) == "true",
		Groups: []string{Group}, Expires: Expires(s),
	}
	switch {
	case s.Type != Type || s.Namespace != Namespace:
		return nil, fmt.Errorf("want a Secret of type %s in %s", Type, Namespace)
	case !idForm.MatchString(t.ID) || s.Name != Prefix+t.ID:
		return nil, fmt.Errorf("its name has to be %s and the six characters of %s", Prefix, keyID)
	case t.Secret == "":
		return nil, errors.New(keySecret + " is missing")
	}
	if extra := string(s.Data[keyGroups]); extra != "" {
		var more []string
		for g := range strings.SplitSeq(extra, ",") {
			if !groupForm.MatchString(g) {
				return nil, fmt.Errorf("%s: %q is no group that begins with %s:", keyGroups, g, Group)
			}
			more = append(more, g)
		}
		slices.Sort(more)
		t.Groups = append(t.Groups, slices.Compact(more)...)
	}
	return t, nil
}

// Expires is when the token of a Secret ends; the zero time for never. A time
// that cannot be read has passed: the safe side.
func Expires(s *corev1.Secret) time.Time {
	text := string(s.Data[keyExpiration])
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Unix(0, 0)
	}
	return at
}

// Expired tells whether the token is of no use any more.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }
