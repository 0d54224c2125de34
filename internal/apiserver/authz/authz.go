// Package authz decides whether a user may do what a request asks.
//
//	Builtin: Roles ----> the cluster's own parts, and what everybody may
//	         Nodes ----> a kubelet, by the pods on its node
//	RBAC --------------> everybody, by roles and bindings, which are objects
//
// The first that allows wins (Union); nothing ever denies, so the order is one
// of cost. Builtin reads no object: nobody who edits roles can stop the
// cluster.
//
// Upstream's default roles are there as objects (EnsureDefaults), for people
// and charts to bind to. Who writes a role or a binding may give away what they
// have themselves, and no more (Escalation).
//
// Concurrency: everything here may be used from many goroutines. RBAC sees a
// new binding once its index does.
//
// Testing: decisions by tables; what a loop or a node may not do, but has to,
// shows only in a running cluster (test/e2e).
//
// See https://kubernetes.io/docs/reference/access-authn-authz/authorization/.
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
