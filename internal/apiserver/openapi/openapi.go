// Package openapi describes the API in OpenAPI v3 (an index and a document for
// each group and version) and v2 (one document, JSON or protobuf), for kubectl
// and others that validate, merge and explain by it.
// https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition
//
// The documents are derived from the Go types of k8s.io/api by reflection:
// field names and what is required from the json tags, merge keys from the
// patch tags, descriptions from SwaggerDoc. Where those are not what
// upstream publishes (fields that are required all the same, lists that are
// maps), exceptions.go says so. A test holds them against upstream's documents and
// names every difference (testdata/differences.txt).
//
//	kinds --reflect--> models --+--> v3 document of a group version
//	   \--> operations ---------+--> v2 document
//
// Nothing is made before somebody asks. A document that was made is kept
// compressed, and thrown away when the version counter moves. A Handler may be
// used from many goroutines.
package openapi

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Handler serves /openapi/v2, /openapi/v3 and what lies below it.
type Handler struct {
	kinds   func() []*kinds.Kind
	version func() uint64
	// about is the version of the API that documents tell.
	about   string
	remotes func() []Remote
	now     atomic.Pointer[snapshot]
}

// New describes what list returns. version moves whenever list returns
// something else; nil when it never does. about is the API's version
// ("v1.37.2").
func New(about string, list func() []*kinds.Kind, version func() uint64) *Handler {
	if version == nil {
		version = func() uint64 { return 0 }
	}
	return &Handler{kinds: list, version: version, about: about}
}

// Paths returns what to serve, for the API server's Config.
func (h *Handler) Paths() map[string]http.Handler {
	v2, v3 := http.HandlerFunc(h.serveV2), http.HandlerFunc(h.serveV3)
	return map[string]http.Handler{"/openapi/v2": v2, "/openapi/v3": v3, "/openapi/v3/": v3}
}

// snapshot is what was served at one version.
type snapshot struct {
	version uint64
	about   string
	groups  []groupVersion
	remotes []Remote

	index func() []byte
	v2    func() document // JSON
	v2pb  func() document
	mu    sync.Mutex
	docs  map[string]document // v3, by path ("apis/apps/v1")
}

// groupVersion is what one version of a group serves; without a version, what
// the group itself does.
type groupVersion struct {
	schema.GroupVersion
	served []served
}

// served is a kind in one version.
type served struct {
	kind    *kinds.Kind
	version *kinds.Version
}

func (s served) gvk() schema.GroupVersionKind {
	return s.version.GroupVersion.WithKind(s.kind.VersionKind(s.version))
}

// path of a group version's document below /openapi/v3/.
func (g *groupVersion) path() string {
	path := "apis/" + g.Group
	if g.Group == "" {
		path = "api"
	}
	if g.Version != "" { // else it is of the group itself
		path += "/" + g.Version
	}
	return path
}

func (h *Handler) snapshot() *snapshot {
	v := h.version()
	if s := h.now.Load(); s != nil && s.version == v {
		return s
	}
	s := &snapshot{version: v, about: h.about, groups: group(h.kinds()), docs: map[string]document{}}
	if h.remotes != nil {
		s.remotes = h.remotes()
	}
	s.index = sync.OnceValue(s.buildIndex)
	s.v2 = sync.OnceValue(func() document { return compress(s.jsonV2()) })
	s.v2pb = sync.OnceValue(func() document { return compress(s.protobufV2()) })
	h.now.Store(s)
	return s
}

func group(list []*kinds.Kind) []groupVersion {
	byGV := map[schema.GroupVersion]int{}
	var out []groupVersion
	for _, k := range list {
		for i := range k.Versions {
			v := &k.Versions[i]
			if v.Unserved {
				continue
			}
			n, ok := byGV[v.GroupVersion]
			if !ok {
				n = len(out)
				byGV[v.GroupVersion] = n
				out = append(out, groupVersion{GroupVersion: v.GroupVersion})
			}
			out[n].served = append(out[n].served, served{k, v})
		}
	}
	roots := map[string]bool{}
	for _, g := range slices.Clone(out) {
		if !roots[g.Group] {
			roots[g.Group] = true
			out = append(out, groupVersion{GroupVersion: schema.GroupVersion{Group: g.Group}})
		}
	}
	slices.SortFunc(out, func(a, b groupVersion) int { return strings.Compare(a.path(), b.path()) })
	for i := range out {
		slices.SortFunc(out[i].served, func(a, b served) int {
			return strings.Compare(a.kind.Resource.Resource, b.kind.Resource.Resource)
		})
	}
	return out
}

// v3 returns the document of a group version, made if need be. Two documents
// may be asked for at once; making one is quick enough to wait for the other.
func (s *snapshot) v3(g *groupVersion) document {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.docs[g.path()]
	if !ok {
		d = compress(s.jsonV3(g))
		s.docs[g.path()] = d
	}
	return d
}
