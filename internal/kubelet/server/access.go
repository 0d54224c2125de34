package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Who may ask a kubelet: the API server and members of system:masters by their
// certificates; others, by a certificate or a bearer token, for what the API
// server says that they may do with the node's subresources.
// https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/

// How long an answer of the API server holds.
const (
	knownFor   = 2 * time.Minute
	allowedFor = 5 * time.Minute
	deniedFor  = 30 * time.Second
	// answersKept bounds the memory for answers: beyond it all are asked for
	// anew.
	answersKept = 1024
)

var (
	tokenReviews  = authenticationv1.SchemeGroupVersion.WithResource("tokenreviews")
	accessReviews = authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")
)

var errUnauthorized = errors.New("Unauthorized") // the text is upstream's

// access asks the API server, and remembers what it said.
type access struct {
	client client.Interface
	node   string

	mu      sync.Mutex
	users   map[[sha256.Size]byte]known // guarded by mu; by token
	answers map[question]answer         // guarded by mu
}

type known struct {
	user  *authenticationv1.UserInfo // nil: nobody
	until time.Time
}

type question struct{ user, groups, verb, sub string }

type answer struct {
	allowed bool
	reason  string
	until   time.Time
}

func newAccess(c client.Interface, node string) *access {
	return &access{client: c, node: node, users: map[[sha256.Size]byte]known{}, answers: map[question]answer{}}
}

// user is who asks.
func (a *access) user(r *http.Request) (*authenticationv1.UserInfo, error) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		who := r.TLS.VerifiedChains[0][0].Subject
		return &authenticationv1.UserInfo{Username: who.CommonName, Groups: who.Organization}, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" || a.client == nil {
		return nil, errUnauthorized
	}
	key, now := sha256.Sum256([]byte(token)), time.Now()
	a.mu.Lock()
	had, ok := a.users[key]
	a.mu.Unlock()
	if !ok || now.After(had.until) {
		got, err := a.client.Create(r.Context(), tokenReviews, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
		if err != nil {
			return nil, err
		}
		had = known{until: now.Add(knownFor)}
		if review, ok := got.(*authenticationv1.TokenReview); ok && review.Status.Authenticated {
			had.user = &review.Status.User
		} else {
			had.until = now.Add(deniedFor)
		}
		a.mu.Lock()
		if len(a.users) >= answersKept {
			clear(a.users)
		}
		a.users[key] = had
		a.mu.Unlock()
	}
	if had.user == nil {
		return nil, errUnauthorized
	}
	return had.user, nil
}

// may tells whether a user may use one of subresources of the node.
func (a *access) may(ctx context.Context, u *authenticationv1.UserInfo, verb string, subs []string) (bool, string, error) {
	if a.client == nil {
		return false, "", nil
	}
	reason := ""
	for _, sub := range subs {
		got, err := a.ask(ctx, u, verb, sub)
		if err != nil || got.allowed {
			return err == nil, "", err
		}
		reason = got.reason
	}
	return false, reason, nil
}

func (a *access) ask(ctx context.Context, u *authenticationv1.UserInfo, verb, sub string) (answer, error) {
	key, now := question{u.Username, strings.Join(u.Groups, "\n"), verb, sub}, time.Now()
	a.mu.Lock()
	had, ok := a.answers[key]
	a.mu.Unlock()
	if ok && now.Before(had.until) {
		return had, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.Username, UID: u.UID, Groups: u.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: sub, Name: a.node},
	}}
	for k, v := range u.Extra {
		review.Spec.Extra[k] = authorizationv1.ExtraValue(v)
	}
	got, err := a.client.Create(ctx, accessReviews, review)
	if err != nil {
		return answer{}, err
	}
	done, ok := got.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return answer{}, fmt.Errorf("the API server answered an access review with a %T", got)
	}
	had = answer{allowed: done.Status.Allowed, reason: done.Status.Reason, until: now.Add(deniedFor)}
	if had.allowed {
		had.until = now.Add(allowedFor)
	}
	a.mu.Lock()
	if len(a.answers) >= answersKept {
		clear(a.answers)
	}
	a.answers[key] = had
	a.mu.Unlock()
	return had, nil
}

// verbs are those of the API, by HTTP method.
var verbs = map[string]string{http.MethodPost: "create", http.MethodGet: "get", http.MethodHead: "get", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// subresources of the node, any of which lets somebody use a path.
func subresources(path string) []string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "stats":
		return []string{"stats"}
	case "metrics":
		return []string{"metrics"}
	case "logs":
		return []string{"log"}
	case "pods", "runningpods":
		return []string{"pods", "proxy"}
	}
	return []string{"proxy"}
}

// admitted lets only those in who may.
func (s *Server) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := s.access.user(r)
		switch {
		case errors.Is(err, errUnauthorized):
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		case err != nil:
			http.Error(w, "Internal Error: who asks cannot be told: "+err.Error(), http.StatusInternalServerError)
			return
		}
		if slices.Contains(s.opts.Clients, u.Username) || slices.Contains(u.Groups, masters) {
			next.ServeHTTP(w, r)
			return
		}
		verb, subs := verbs[r.Method], subresources(r.URL.Path)
		ok, reason, err := s.access.may(r.Context(), u, verb, subs)
		switch {
		case err != nil:
			http.Error(w, fmt.Sprintf("Internal Error: what user %s may do cannot be told: %v", u.Username, err), http.StatusInternalServerError)
		case !ok:
			http.Error(w, strings.TrimSuffix(fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v): %s", u.Username, verb, subs, reason), ": "), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
