package apiserver

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/apiserver/fairness"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

// Config is what a Server is made of.
type Config struct {
	Store store.Store
	Kinds []*kinds.Kind
	// Authenticators are asked in order; the first who knows the request
	// wins. A request that none knows is anonymous.
	Authenticators []authn.Authenticator
	Authorizer     authz.Authorizer
	Admission      []admission.Plugin
	// Fairness admits requests for resources; nil: all of them at once. Loops
	// in this process do not ask it.
	Fairness *fairness.Limiter
	// Subresources serves subresources that are no view of an object
	// (pods/log, pods/exec, serviceaccounts/token), by "resource.group/name"
	// ("pods/log", "deployments.apps/rollback").
	Subresources map[string]SubresourceHandler
	// Computed makes the objects of kinds that are not stored, by
	// "resource.group" ("componentstatuses").
	Computed map[string]Computed
	// Paths serves what is no resource ("/openapi/v2"), by path or, with a
	// "/" at its end, by prefix. Authorized before.
	Paths map[string]http.Handler
	// Extension is who serves the resources of a group and version that are
	// no kinds of this server; nil where it returns nil. Authorized before.
	Extension func(group, version string) http.Handler
	// Foreign lists what Extension serves, for loops in this process; nil:
	// nothing.
	Foreign func() []client.ResourceInfo
	Metrics *prometheus.Registry // nil: none
	Logger  *slog.Logger
	// RequestLog, when not nil, gets one record for each request that ended.
	RequestLog func(RequestRecord)
	// CheckImmutable makes the server notice when somebody changed a shared
	// object (tests): it panics with the object's key.
	CheckImmutable bool
}

// SubresourceHandler serves one subresource. The request is authenticated and
// authorized; a is its parsed form.
type SubresourceHandler func(w http.ResponseWriter, r *http.Request, a *authz.Attributes)

// RequestRecord is one line of the request log.
type RequestRecord struct {
	Time      time.Time
	User      string
	UserAgent string
	Method    string
	URI       string
	Verb      string
	Resource  string // with group: "deployments.apps/status"
	Namespace string
	Name      string
	Code      int
	Bytes     int64
	Duration  time.Duration
	InProcess bool
}

type userKey struct{}

// withUser returns a context that carries the user of a request.
func withUser(ctx context.Context, u *authn.User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the user of a request, or nil.
func UserFrom(ctx context.Context) *authn.User {
	u, _ := ctx.Value(userKey{}).(*authn.User)
	return u
}
