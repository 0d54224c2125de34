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
	"github.com/setpoint-project/setpoint/internal/apiserver/fairness"
	"github.com/setpoint-project/setpoint/internal/kinds"
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

	watch   *watching // to be run when it was opened
	limited bool      // has its deadline
	ticket  fairness.Ticket
	loop    *authn.User // who asks, when it is a loop of this process
}

var anonymous = authn.AnonymousUser()

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.exchange(w, r, nil)
}

// exchange serves one request; loop is who asks, when a loop of this process
// does.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, loop *authn.User) {
	x := &exchange{s: s, r: r, start: time.Now(), loop: loop}
	x.w.ResponseWriter = w
	defer x.finish()
	if err := x.serve(); err != nil {
		x.fail(err)
	}
	if x.watch != nil {
		x.watch.run()
	}
}

// finish writes the log and the metrics, and answers a panic with a 500.
func (x *exchange) finish() {
	x.ticket.Done()
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
		Code: x.w.code, Bytes: x.w.bytes, Duration: took, InProcess: x.loop != nil,
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
	if err == nil {
		user, err = x.impersonate(user)
	}
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
	if x.loop != nil {
		return x.loop, nil
	}
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
		return x.s.nothingAt(x.r.URL.Path)
	}
	h.ServeHTTP(&x.w, x.r.WithContext(withUser(x.r.Context(), x.attrs.User)))
	return nil
}

// verbOf is the API's verb for an HTTP method.
func (x *exchange) verbOf(t *target) string {
	if t.watch {
		if x.r.Method == http.MethodGet && t.sub == "" {
			return "watch"
		}
		return ""
	}
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
	sv := x.s.catalog().byPath[t.group+"/"+t.version+"/"+t.resource]
	handler := SubresourceHandler(nil)
	if sv != nil {
		handler = x.handler(t, sv)
	}
	if handler == nil { // streams last, and would hold their seats
		if err := x.enter(t, sv); err != nil {
			return err
		}
	}
	if err := x.s.authorize(x.r.Context(), &x.attrs); err != nil {
		return err
	}
	if sv == nil || (t.namespaced && !sv.namespaced) {
		if h := x.s.extension(t); h != nil && sv == nil {
			x.ticket.Done()
			h.ServeHTTP(&x.w, x.r.WithContext(withUser(x.r.Context(), x.call.user)))
			return nil
		}
		return x.s.nothingAt(x.r.URL.Path)
	}
	if t.rest != "" && t.sub != "proxy" {
		return x.s.nothingAt(x.r.URL.Path) // nothing lies below other subresources
	}
	x.call.sv, x.call.verb, x.call.namespace, x.call.name, x.call.sub = sv, verb, t.namespace, t.name, t.sub
	x.call.ctx = withUser(x.r.Context(), x.call.user)
	x.call.agent = x.r.UserAgent()
	if sv.version.Warning != "" {
		x.call.warn(sv.version.Warning)
	}
	if handler != nil {
		handler(&x.w, x.r.WithContext(x.call.ctx), &x.attrs)
		return nil
	}
	if verb == "" || x.r.Method == http.MethodHead && !sv.custom() {
		return errMethod(sv, verb)
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
	// What lies in namespaces can be read in all of them at once, no more.
	nowhere := sv.namespaced && !t.namespaced && verb != "list" && verb != "watch"
	if !sv.methods[verb] || verb != "watch" && (t.name != "") != onOne || nowhere {
		return errMethod(sv, verb)
	}
	return x.serveVerb(verb)
}

// extension is who serves what this server does not; nil when nobody does.
func (s *Server) extension(t *target) http.Handler {
	if s.cfg.Extension == nil || t.group == "" {
		return nil
	}
	return s.cfg.Extension(t.group, t.version)
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

// nothingAt answers for a path at which nothing is. Below /api and the groups of
// built-in kinds a client of the API has asked.
func (s *Server) nothingAt(path string) error {
	if strings.HasPrefix(path, "/api/") {
		return errNotServed()
	}
	if after, ok := strings.CutPrefix(path, "/apis/"); ok {
		if group, _, _ := strings.Cut(after, "/"); s.catalog().builtin(group) {
			return errNotServed()
		}
	}
	return errNoPage
}

// errMethod answers a method that is none of a resource. In Kubernetes it is
// the router that says so of a built-in kind, and knows no more than that; HEAD
// is no method of those, but one of custom kinds.
func errMethod(sv *served, verb string) error {
	if sv.custom() {
		return apierrors.NewMethodNotSupported(sv.gr, verb)
	}
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
}

// custom tells the kinds that users define.
func (res *resource) custom() bool {
	_, ok := res.kind.HubVersion().New().(kinds.Dynamic)
	return ok
}

func (x *exchange) serveVerb(verb string) error {
	if verb == "watch" {
		return x.serveWatch()
	}
	x.s.metrics.inflight(verb, 1)
	defer x.s.metrics.inflight(verb, -1)
	if verb == "get" && x.query.values == nil {
		return x.serveGet() // waits for nothing; a long answer gets its limit in send
	}
	done, err := x.limit()
	if err != nil {
		return err
	}
	defer done()
	switch verb {
	case "get":
		return x.serveGet()
	case "list":
		return x.serveList()
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
	return errMethod(x.call.sv, verb)
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
	if isTooMany(err) {
		x.tooMany()
		return
	}
	if err == errNoPage {
		http.NotFound(&x.w, x.r)
		return
	}
	status := statusOf(err)
	if status.Code >= 500 && status.Reason != metav1.StatusReasonTimeout {
		x.s.log.Warn("request failed", "method", x.r.Method, "uri", x.r.URL.RequestURI(), "error", err)
	}
	x.writeStatus(status)
}
