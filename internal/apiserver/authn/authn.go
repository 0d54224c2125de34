// Package authn finds out who sends a request.
//
//	TLS ---------> ClientCerts                        names are in the certificate
//	Bearer ------> Tokens --> BootstrapTokens         a Secret says it, and till when
//	                     `--> ServiceAccounts         this cluster signed it, for an object and
//	                                                  a time, or for as long as a Secret lies there
//
// Who shows nothing is AnonymousUser; who shows something that is not good is
// told so (401), and is nobody.
//
// Signatures are checked once and remembered, as they cannot change. Whether an
// account, a pod, a node or a Secret is still there is looked up at each
// request, in memory.
//
// Concurrency: everything here may be used from many goroutines.
//
// Testing: each way by itself, with keys and certificates made for the test.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/authentication/.
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
