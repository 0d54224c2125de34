package apiserver

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// exchange is one HTTP request and its answer.
type exchange struct {
	s     *Server
	w     response
	r     *http.Request
	query query
	attrs authz.Attributes
	call  call
	start time.Time
	pres  presentation
	scope string // of the metrics
}

var anonymous = &authn.User{Name: authn.Anonymous, Groups: []string{"system:unauthenticated"}}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{s: s, r: r, start: time.Now()}
	x.w.ResponseWriter = w
	defer x.finish()
	if err := x.serve(); err != nil {
		x.fail(err)
	}
}

// finish writes the log and the metrics, and answers a panic with a 500.
func (x *exchange) finish() {
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler {
			panic(p)
		}
		x.s.log.Error("panic in a request", "uri", x.r.URL.RequestURI(), "panic", p, "stack", string(debug.Stack()))
		if x.s.cfg.CheckImmutable {
			panic(p)
		}
		if x.w.code == 0 {
			x.fail(apierrors.NewInternalError(errors.New("this request caused apiserver to panic. Look in the logs for details")))
		}
	}
	took := time.Since(x.start)
	if x.attrs.IsResource && x.call.sv != nil { // unknown names would make series without end
		x.s.metrics.request(&x.attrs, x.scope, x.w.code, x.call.dryRun, took)
	}
	if x.s.cfg.RequestLog != nil {
		x.s.cfg.RequestLog(x.record(took))
	}
}

func (x *exchange) record(took time.Duration) RequestRecord {
	rec := RequestRecord{
		Time: x.start, UserAgent: x.r.UserAgent(), Method: x.r.Method, URI: x.r.URL.RequestURI(),
		Verb: x.attrs.Verb, Namespace: x.attrs.Namespace, Name: x.attrs.Name,
		Code: x.w.code, Bytes: x.w.bytes, Duration: took,
	}
	if x.attrs.User != nil {
		rec.User = x.attrs.User.Name
	}
	if x.attrs.IsResource {
		rec.Resource = resourceName(&x.attrs)
	}
	return rec
}

// resourceName is "deployments.apps/status".
func resourceName(a *authz.Attributes) string {
	name := a.Resource
	if a.Group != "" {
		name += "." + a.Group
	}
	if a.Subresource != "" {
		name += "/" + a.Subresource
	}
	return name
}

func (x *exchange) serve() error {
	user, err := x.authenticate()
	if err != nil {
		return err
	}
	x.attrs.User, x.call.user = user, user
	if x.r.URL.RawQuery != "" {
		x.query.values = x.r.URL.Query()
	}
	t, ok := parsePath(x.r.URL.Path)
	if !ok {
		return x.servePath()
	}
	return x.serveResource(&t)
}

func (x *exchange) authenticate() (*authn.User, error) {
	if len(x.s.cfg.Authenticators) == 0 {
		if u := UserFrom(x.r.Context()); u != nil {
			return u, nil
		}
	}
	for _, a := range x.s.cfg.Authenticators {
		user, err := a.Authenticate(x.r)
		if err != nil {
			return nil, apierrors.NewUnauthorized("Unauthorized")
		}
		if user != nil {
			return user, nil
		}
	}
	return anonymous, nil
}

// servePath serves what is no resource.
func (x *exchange) servePath() error {
	x.attrs.Verb, x.attrs.Path = strings.ToLower(x.r.Method), x.r.URL.Path
	if err := x.s.authorize(x.r.Context(), &x.attrs); err != nil {
		return err
	}
	h := x.s.cfg.Paths[x.r.URL.Path]
	for p := x.r.URL.Path; h == nil && p != ""; {
		i := strings.LastIndexByte(strings.TrimSuffix(p, "/"), '/')
		if i < 0 {
			break
		}
		p = p[:i+1]
		h = x.s.cfg.Paths[p]
	}
	if h == nil {
		return errNotServed()
	}
	h.ServeHTTP(&x.w, x.r.WithContext(WithUser(x.r.Context(), x.attrs.User)))
	return nil
}

// verbOf is the API's verb for an HTTP method.
func (x *exchange) verbOf(t *target) string {
	switch x.r.Method {
	case http.MethodGet, http.MethodHead:
		if x.query.bool("watch") && t.sub == "" {
			return "watch"
		}
		if t.name == "" {
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if t.name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return ""
}

func (x *exchange) serveResource(t *target) error {
	verb := x.verbOf(t)
	x.attrs = authz.Attributes{User: x.call.user, Verb: verb, Group: t.group, Version: t.version, Resource: t.resource,
		Subresource: t.sub, Namespace: t.namespace, Name: t.name, Path: x.r.URL.Path, IsResource: true}
	if t.resource == "namespaces" && t.group == "" {
		x.attrs.Namespace = t.name
	}
	if t.name == "" && (verb == "list" || verb == "watch" || verb == "deletecollection") {
		x.attrs.Name = pinnedName(x.query.get("fieldSelector"))
	}
	switch {
	case t.name != "":
		x.scope = "resource"
	case t.namespaced:
		x.scope = "namespace"
	default:
		x.scope = "cluster"
	}
	if err := x.s.authorize(x.r.Context(), &x.attrs); err != nil {
		return err
	}
	sv := x.s.byPath[t.group+"/"+t.version+"/"+t.resource]
	if sv == nil || (t.namespaced && !sv.namespaced) {
		// An extension may live here (Paths with a prefix), else 404.
		if h := x.s.cfg.Paths["/apis/"+t.group+"/"]; h != nil && sv == nil {
			h.ServeHTTP(&x.w, x.r.WithContext(WithUser(x.r.Context(), x.attrs.User)))
			return nil
		}
		return errNotServed()
	}
	x.call.sv, x.call.verb, x.call.namespace, x.call.name, x.call.sub = sv, verb, t.namespace, t.name, t.sub
	x.call.ctx = WithUser(x.r.Context(), x.call.user)
	if h := x.handler(t, sv); h != nil {
		h(&x.w, x.r.WithContext(x.call.ctx), &x.attrs)
		return nil
	}
	if verb == "" {
		return errMethod(sv.gr, x.r.Method)
	}
	if t.sub != "" {
		if sv.namespaced && !t.namespaced {
			return errNotServed()
		}
		return x.serveSubresource()
	}
	if t.name != "" && sv.namespaced && !t.namespaced {
		return errNotServed()
	}
	onOne := verb == "get" || verb == "update" || verb == "patch" || verb == "delete"
	if !sv.methods[verb] || verb != "watch" && (t.name != "") != onOne || verb == "create" && sv.namespaced && !t.namespaced {
		return errMethod(sv.gr, verb)
	}
	return x.serveVerb(verb)
}

// handler finds who serves a subresource, or a whole resource that is only
// created (a review), in the server's stead.
func (x *exchange) handler(t *target, sv *served) SubresourceHandler {
	if len(x.s.cfg.Subresources) == 0 {
		return nil
	}
	if t.sub != "" {
		return x.s.cfg.Subresources[sv.gr.String()+"/"+t.sub]
	}
	if x.attrs.Verb == "create" {
		return x.s.cfg.Subresources[sv.gr.String()]
	}
	return nil
}

// pinnedName is the name that a field selector demands: who may read one object
// may list and watch it.
func pinnedName(fieldSelector string) string {
	if !strings.Contains(fieldSelector, "metadata.name") {
		return ""
	}
	sel, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return ""
	}
	name, _ := sel.RequiresExactMatch("metadata.name")
	return name
}

func errMethod(gr schema.GroupResource, verb string) error {
	return apierrors.NewMethodNotSupported(gr, verb)
}

func (x *exchange) serveVerb(verb string) error {
	x.s.metrics.inflight(verb, 1)
	defer x.s.metrics.inflight(verb, -1)
	switch verb {
	case "get":
		return x.serveGet()
	case "list":
		return x.serveList()
	case "watch":
		return x.serveWatch()
	case "create":
		return x.serveCreate()
	case "update":
		return x.serveUpdate()
	case "patch":
		return x.servePatch()
	case "delete":
		return x.serveDelete()
	case "deletecollection":
		return x.serveDeleteCollection()
	}
	return errMethod(x.call.sv.gr, verb)
}

// requestTimeout is how long a request may take that is neither a watch nor a
// stream; ?timeout= shortens it.
const requestTimeout = time.Minute

// limit gives the request its deadline.
func (x *exchange) limit() context.CancelFunc {
	timeout := requestTimeout
	if v := x.query.get("timeout"); v != "" {
		if d, err := time.ParseDuration(v); err == nil && d > 0 {
			timeout = min(timeout, d)
		}
	}
	ctx, cancel := context.WithTimeout(x.call.ctx, timeout)
	x.call.ctx = ctx
	return cancel
}

// fail answers with an error.
func (x *exchange) fail(err error) {
	if x.w.code != 0 {
		return // too late: the answer has begun
	}
	if x.r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		x.w.code = 499 // the client has gone; for the log only
		return
	}
	status := statusOf(err)
	if status.Code >= 500 && status.Reason != metav1.StatusReasonTimeout {
		x.s.log.Warn("request failed", "method", x.r.Method, "uri", x.r.URL.RequestURI(), "error", err)
	}
	x.writeStatus(status)
}
