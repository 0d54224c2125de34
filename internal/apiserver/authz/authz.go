// Package authz decides whether a user may do what a request asks.
package authz

import (
	"context"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
)

// Attributes are what a decision may look at.
type Attributes struct {
	User        *authn.User
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection; lower-case HTTP method for paths
	Group       string
	Version     string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Path        string // for what is no resource: "/healthz"
	IsResource  bool
}

// Authorizer decides. A refusal gives the reason that the 403 shows.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) (allowed bool, reason string)
}
