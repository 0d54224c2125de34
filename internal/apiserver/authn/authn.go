// Package authn finds out who sends a request: by client certificate or by
// service account token.
package authn

import "net/http"

// User is who sends a request.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Anonymous is the user of a request without credentials.
const Anonymous = "system:anonymous"

// InGroup tells whether the user is in group.
func (u *User) InGroup(group string) bool {
	for _, g := range u.Groups {
		if g == group {
			return true
		}
	}
	return false
}

// Authenticator finds the user of a request. It returns nil, nil when the
// request holds no credentials of its kind, and an error when it holds bad
// ones (the answer is 401).
type Authenticator interface {
	Authenticate(r *http.Request) (*User, error)
}
