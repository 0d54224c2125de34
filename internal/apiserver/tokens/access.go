package tokens

import (
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// Access answers who may do what.
// https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
type Access struct {
	Authorizer authz.Authorizer
	// RulesFor lists what a user may do in a namespace.
	RulesFor func(a *authz.Attributes) []authz.Rule
}

func reviewGVK(kind string) schema.GroupVersionKind {
	return authorizationv1.SchemeGroupVersion.WithKind(kind)
}

// ServeSubject serves the creation of subjectaccessreviews.
func (v *Access) ServeSubject(w http.ResponseWriter, r *http.Request, _ *authz.Attributes) {
	gvk, review := reviewGVK("SubjectAccessReview"), &authorizationv1.SubjectAccessReview{}
	err := read(w, r, gvk, review)
	if err == nil {
		err = invalid(gvk, validateSubject(&review.Spec))
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	review.Status = v.decide(r, subject(&review.Spec), review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	answer(w, r, http.StatusCreated, gvk, review)
}

// ServeLocal serves the creation of localsubjectaccessreviews.
func (v *Access) ServeLocal(w http.ResponseWriter, r *http.Request, a *authz.Attributes) {
	gvk, review := reviewGVK("LocalSubjectAccessReview"), &authorizationv1.LocalSubjectAccessReview{}
	err := read(w, r, gvk, review)
	if err == nil {
		err = invalid(gvk, validateLocal(review))
	}
	if err == nil && review.Spec.ResourceAttributes.Namespace != a.Namespace {
		err = apierrors.NewBadRequest(fmt.Sprintf("spec.resourceAttributes.namespace must match namespace: %s", a.Namespace))
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	review.Namespace = a.Namespace
	review.Status = v.decide(r, subject(&review.Spec), review.Spec.ResourceAttributes, nil)
	answer(w, r, http.StatusCreated, gvk, review)
}

// ServeSelf serves the creation of selfsubjectaccessreviews.
func (v *Access) ServeSelf(w http.ResponseWriter, r *http.Request, a *authz.Attributes) {
	gvk, review := reviewGVK("SelfSubjectAccessReview"), &authorizationv1.SelfSubjectAccessReview{}
	err := read(w, r, gvk, review)
	if err == nil {
		err = invalid(gvk, validateWhat(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes))
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	review.Status = v.decide(r, a.User, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	answer(w, r, http.StatusCreated, gvk, review)
}

// ServeRules serves the creation of selfsubjectrulesreviews.
func (v *Access) ServeRules(w http.ResponseWriter, r *http.Request, a *authz.Attributes) {
	gvk, review := reviewGVK("SelfSubjectRulesReview"), &authorizationv1.SelfSubjectRulesReview{}
	err := read(w, r, gvk, review)
	if err == nil && review.Spec.Namespace == "" {
		err = apierrors.NewBadRequest("no namespace on request")
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	// Empty lists, not null: clients range over them.
	review.Status = authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    []authorizationv1.ResourceRule{},
		NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	for _, rule := range v.RulesFor(&authz.Attributes{User: a.User, Namespace: review.Spec.Namespace}) {
		if len(rule.Paths) > 0 {
			review.Status.NonResourceRules = append(review.Status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: rule.Verbs, NonResourceURLs: rule.Paths})
		}
		if len(rule.Resources) > 0 {
			review.Status.ResourceRules = append(review.Status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.Groups, Resources: rule.Resources, ResourceNames: rule.Names,
			})
		}
	}
	answer(w, r, http.StatusCreated, gvk, review)
}

func subject(spec *authorizationv1.SubjectAccessReviewSpec) *authn.User {
	u := &authn.User{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return u
}

func (v *Access) decide(r *http.Request, user *authn.User, res *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	a := &authz.Attributes{User: user}
	if res != nil {
		a.IsResource = true
		a.Verb, a.Group, a.Version, a.Resource, a.Subresource = res.Verb, res.Group, res.Version, res.Resource, res.Subresource
		a.Namespace, a.Name = res.Namespace, res.Name
	} else {
		a.Verb, a.Path = path.Verb, path.Path
	}
	allowed, reason := v.Authorizer.Authorize(r.Context(), a)
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed, Reason: reason}
}

func invalid(gvk schema.GroupVersionKind, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(gvk.GroupKind(), "", errs)
}

func validateWhat(res *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	switch {
	case res != nil && path != nil:
		errs = append(errs, field.Invalid(spec.Child("nonResourceAttributes"), path, "cannot be specified in combination with resourceAttributes"))
	case res == nil && path == nil:
		errs = append(errs, field.Invalid(spec.Child("resourceAttributes"), res, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	return errs
}

func validateSubject(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateWhat(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return errs
}

func validateLocal(review *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := validateSubject(&review.Spec)
	if review.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "nonResourceAttributes"), review.Spec.NonResourceAttributes, "disallowed on this kind of request"))
	}
	return errs
}
