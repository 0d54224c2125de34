package tokens

import (
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// Reviews answer who somebody is.
type Reviews struct {
	Tokens authn.TokenAuthenticator
	// Audiences are the API server's own.
	Audiences []string
}

var (
	tokenReviewGVK = authenticationv1.SchemeGroupVersion.WithKind("TokenReview")
	selfReviewGVK  = authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview")
)

// ServeToken serves the creation of tokenreviews.
func (v *Reviews) ServeToken(w http.ResponseWriter, r *http.Request, _ *authz.Attributes) {
	review := &authenticationv1.TokenReview{}
	err := read(w, r, tokenReviewGVK, review)
	if err == nil && review.Spec.Token == "" {
		err = apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	audiences := review.Spec.Audiences
	if len(audiences) == 0 {
		audiences = v.Audiences
	}
	user, good, err := v.Tokens.AuthenticateToken(r.Context(), review.Spec.Token, audiences)
	review.Status = authenticationv1.TokenReviewStatus{}
	switch {
	case err != nil:
		// A bad token is a proper answer, not a failure of the request.
		review.Status.Error = err.Error()
	case user != nil:
		review.Status.Authenticated, review.Status.User, review.Status.Audiences = true, userInfo(user), good
	}
	answer(w, r, http.StatusCreated, tokenReviewGVK, review)
}

// ServeSelf serves the creation of selfsubjectreviews.
func (v *Reviews) ServeSelf(w http.ResponseWriter, r *http.Request, a *authz.Attributes) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := read(w, r, selfReviewGVK, review); err != nil {
		refuse(w, r, err)
		return
	}
	review.CreationTimestamp = metav1.NewTime(time.Now())
	review.Status = authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(a.User)}
	answer(w, r, http.StatusCreated, selfReviewGVK, review)
}

func userInfo(u *authn.User) authenticationv1.UserInfo {
	out := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	for key, values := range u.Extra {
		if out.Extra == nil {
			out.Extra = map[string]authenticationv1.ExtraValue{}
		}
		out.Extra[key] = values
	}
	return out
}
