// Package admission changes and checks objects between decoding and
// validation. Plugins run in order: first every Admit, some of them twice
// (Reinvoker), then every Validate. The order is internal/cluster's, as
// upstream's is where it matters.
//
//	decoded -> Admit, Admit, ... -> kind's rules -> Validate, Validate, ... -> stored: Commit
//	                                                                      `-> refused: Rollback
//
// A plugin is a file with a type named as upstream names the plugin. It reads
// what else there is by a GetFunc or a ListFunc, from the API server's memory,
// and costs a request nothing whose resource is not its own. Package dynamic
// asks those that are set up while the server runs: webhooks and policies.
//
// Concurrency: a plugin is asked by many requests at once; a Request is one
// goroutine's.
//
// Failure: a refusal is an API status error with upstream's reason and words.
// What a plugin took from elsewhere (an address, a part of a quota) goes back by
// Rollback.
//
// Testing: plugins against a world that is a map of objects.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
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
	// Connect opens a stream: exec, attach, port-forward, proxy.
	Connect Operation = "CONNECT"
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
	// Version is the one that the request is in; zero is the hub.
	Version schema.GroupVersion
	// ConnectOptions are what a Connect asks for, with their type.
	ConnectOptions runtime.Object
	// Warn sends warnings to the client; may be nil.
	Warn func(texts ...string)
	// Rollback holds what undoes side effects of Admit (an allocated address)
	// when the request fails later; Commit what is done once it is stored.
	Rollback, Commit []func()
	// Changed is set by a Reinvoker that changed the object. All plugins up to
	// the last Reinvoker are then asked once more, with Again set.
	Changed, Again bool
	// Notes are what plugins keep from the first time to the second.
	Notes map[string]any
}

// Note keeps what a plugin wants to know when it is asked again.
func (r *Request) Note(plugin string, v any) {
	if r.Notes == nil {
		r.Notes = map[string]any{}
	}
	r.Notes[plugin] = v
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

// Reinvoker is a plugin that changes objects as somebody says who knows nothing
// of the other plugins (a webhook, a policy): what those before it fill in may
// be missing from what it added, so they see the object once more.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#reinvocation-policy
type Reinvoker interface {
	Plugin
	Reinvokes()
}
