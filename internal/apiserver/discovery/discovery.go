// Package discovery tells clients what the server serves: the legacy documents
// (/api, /apis, one for each group and version) and the aggregated ones
// (APIGroupDiscoveryList), as JSON, YAML and protobuf.
// https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
//
// Everything is derived from []*kinds.Kind. Documents are made when they are
// first asked for, kept as bytes, and thrown away when the version counter
// moves (a custom resource came or went). A Handler may be used from many
// goroutines.
package discovery

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Handler serves /api, /apis and what lies below them, except resources.
type Handler struct {
	kinds   func() []*kinds.Kind
	version func() uint64
	remote  func() []Remote // nil: none
	now     atomic.Pointer[snapshot]
}

// snapshot is what was served at one version.
type snapshot struct {
	version uint64
	groups  []*group
	docs    sync.Map // docKey -> document
}

type docKey struct {
	path   string
	format format
}

type document struct {
	body []byte
	etag string
}

// New serves what list returns. version moves whenever list returns something
// else; nil when it never does.
func New(list func() []*kinds.Kind, version func() uint64) *Handler {
	if version == nil {
		version = func() uint64 { return 0 }
	}
	return &Handler{kinds: list, version: version}
}

func (h *Handler) snapshot() *snapshot {
	v := h.version()
	if s := h.now.Load(); s != nil && s.version == v {
		return s
	}
	// Two may do this at once; either result is right.
	s := &snapshot{version: v, groups: groupKinds(h.kinds())}
	if h.remote != nil {
		s.merge(h.remote())
	}
	h.now.Store(s)
	return s
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, &apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false).ErrStatus)
		return
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	s := h.snapshot()
	if !s.serves(path) {
		if !s.near(path) {
			http.NotFound(w, r)
			return
		}
		refuse(w, &apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false).ErrStatus)
		return
	}
	f, ok := negotiate(r.Header.Values("Accept"), path == "/api" || path == "/apis")
	if !ok {
		notAcceptable(w)
		return
	}
	if path == "/api" && !f.aggregated() {
		// The only document that depends on who asks.
		write(w, r, f, document{body: f.encode(versions(r))})
		return
	}
	write(w, r, f, s.document(path, f))
}

func (s *snapshot) document(path string, f format) document {
	key := docKey{path, f}
	if d, ok := s.docs.Load(key); ok {
		return d.(document)
	}
	d := document{body: f.encode(s.build(path, f))}
	if f.aggregated() {
		d.etag = etag(d.body)
	}
	s.docs.Store(key, d)
	return d
}

// parts splits /apis/G/V; legacy is for /api.
func parts(path string) (legacy bool, group, version string, ok bool) {
	p := strings.Split(path, "/")
	switch {
	case len(p) < 2 || p[0] != "" || len(p) > 4:
		return false, "", "", false
	case p[1] == "api" && len(p) == 2:
		return true, "", "", true
	case p[1] == "api" && len(p) == 3:
		return true, "", p[2], true
	case p[1] == "apis":
		p = append(p, "", "")
		return false, p[2], p[3], true
	}
	return false, "", "", false
}

func (s *snapshot) serves(path string) bool {
	legacy, name, version, ok := parts(path)
	if !ok || (!legacy && name == "" && path != "/apis") {
		return false
	}
	if path == "/api" || path == "/apis" {
		return true
	}
	g := s.group(name)
	return g != nil && (version == "" || g.version(version) != nil)
}

// near tells paths of clients of the API from those that lead nowhere: the
// former are below /api or a group that there is.
func (s *snapshot) near(path string) bool {
	p := strings.Split(path, "/")
	return len(p) > 2 && (p[1] == "api" || p[1] == "apis" && p[2] != "" && s.group(p[2]) != nil)
}

func (s *snapshot) group(name string) *group {
	for _, g := range s.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

// versions is the document at /api.
func versions(r *http.Request) *metav1.APIVersions {
	address := r.Host
	// The address at which the client reached us is one that it can reach.
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		address = a.String()
	}
	return &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: []string{"v1"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
			{ClientCIDR: "0.0.0.0/0", ServerAddress: address},
		},
	}
}
