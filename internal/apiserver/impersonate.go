package apiserver

import (
	"errors"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

var (
	impersonateUser  = textproto.CanonicalMIMEHeaderKey(authenticationv1.ImpersonateUserHeader)
	impersonateGroup = textproto.CanonicalMIMEHeaderKey(authenticationv1.ImpersonateGroupHeader)
	impersonateUID   = textproto.CanonicalMIMEHeaderKey(authenticationv1.ImpersonateUIDHeader)
	impersonateExtra = textproto.CanonicalMIMEHeaderKey(authenticationv1.ImpersonateUserExtraHeaderPrefix)
)

// impersonate is the user that a request of user acts as: another one when its
// headers ask for that, and when user may act so. The headers go, so that
// nobody behind this server takes them for their own.
func (x *exchange) impersonate(user *authn.User) (*authn.User, error) {
	h := x.r.Header
	asked := false
	for name := range h {
		asked = asked || strings.HasPrefix(name, "Impersonate-")
	}
	if !asked {
		return user, nil
	}
	as := &authn.User{Name: h.Get(impersonateUser), UID: h.Get(impersonateUID), Groups: slices.Clone(h[impersonateGroup])}
	for name, values := range h {
		if key, ok := strings.CutPrefix(name, impersonateExtra); ok && key != "" {
			if as.Extra == nil {
				as.Extra = map[string][]string{}
			}
			key = extraKey(key)
			as.Extra[key] = append(as.Extra[key], values...)
		}
	}
	if as.Name == "" {
		if as.UID == "" && len(as.Groups) == 0 && len(as.Extra) == 0 {
			return user, nil
		}
		return nil, apierrors.NewInternalError(errors.New("requested to impersonate groups, a uid or extra values without impersonating a user"))
	}
	for _, a := range impersonations(as) {
		a.User, a.Verb, a.IsResource, a.Path = user, "impersonate", true, x.r.URL.Path
		if err := x.s.authorize(x.r.Context(), &a); err != nil {
			return nil, err
		}
	}
	as.Groups = impliedGroups(as)
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			delete(h, name)
		}
	}
	return as, nil
}

// extraKey reads the key of an extra value out of a header's name: in lower
// case, as header names have none, and escaped where it holds what they cannot.
func extraKey(name string) string {
	name = strings.ToLower(name)
	if key, err := url.PathUnescape(name); err == nil {
		return key
	}
	return name
}

// impersonations are what somebody has to be allowed to act as the user as.
func impersonations(as *authn.User) []authz.Attributes {
	var list []authz.Attributes
	if namespace, name, ok := serviceAccount(as.Name); ok {
		list = append(list, authz.Attributes{Version: "v1", Resource: "serviceaccounts", Namespace: namespace, Name: name})
	} else {
		list = append(list, authz.Attributes{Version: "v1", Resource: "users", Name: as.Name})
	}
	for _, g := range as.Groups {
		list = append(list, authz.Attributes{Version: "v1", Resource: "groups", Name: g})
	}
	const group = authenticationv1.GroupName
	if as.UID != "" {
		list = append(list, authz.Attributes{Group: group, Version: "v1", Resource: "uids", Name: as.UID})
	}
	for key, values := range as.Extra {
		for _, v := range values {
			list = append(list, authz.Attributes{Group: group, Version: "v1", Resource: "userextras", Subresource: key, Name: v})
		}
	}
	return list
}

// impliedGroups are the groups that come with being that user.
func impliedGroups(as *authn.User) []string {
	groups := as.Groups
	if namespace, _, ok := serviceAccount(as.Name); ok && len(groups) == 0 {
		groups = []string{authn.ServiceAccountsGroup, authn.ServiceAccountsGroup + ":" + namespace}
	}
	switch {
	case slices.Contains(groups, authn.Authenticated), slices.Contains(groups, authn.Unauthenticated):
		return groups
	case as.Name == authn.Anonymous:
		return append(groups, authn.Unauthenticated)
	}
	return append(groups, authn.Authenticated)
}

// serviceAccount takes the user name of a service account apart.
func serviceAccount(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, authn.ServiceAccountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, ":")
}
