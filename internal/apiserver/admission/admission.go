// Package admission changes and checks objects between decoding and
// validation. Plugins run in order: first every Admit, then every Validate.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Operation is what is done to the object.
type Operation string

const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
)

// Request is what a plugin sees. Object is in the hub version of its kind.
type Request struct {
	Operation   Operation
	User        *authn.User
	Resource    schema.GroupResource
	Kind        *kinds.Kind
	Subresource string
	Namespace   string
	Name        string
	Object      kinds.Object // nil for Delete; Admit may change it
	Old         kinds.Object // nil for Create; never changed
	DryRun      bool
	// Rollback holds what undoes side effects of Admit (an allocated address)
	// when the request fails later; Commit what is done once it is stored.
	Rollback, Commit []func()
}

// Plugin is one admission plugin. A refusal is an API status error
// (k8s.io/apimachinery/pkg/api/errors).
type Plugin interface {
	Name() string
	// Admit may change r.Object.
	Admit(ctx context.Context, r *Request) error
	// Validate may not.
	Validate(ctx context.Context, r *Request) error
}
