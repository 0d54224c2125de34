package apiserver

import "strings"

// target is what a URL path names.
type target struct {
	group, version string
	resource       string
	namespace      string
	name           string
	sub            string
	namespaced     bool   // the path has a namespace
	rest           string // behind the subresource (proxy)
	watch          bool   // an old path of a watch
}

// parsePath takes a resource path apart:
//
//	/api/VERSION/... and /apis/GROUP/VERSION/...
//	  RESOURCE[/NAME[/SUBRESOURCE]]
//	  namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]
//	  namespaces/NAMESPACE[/status|/finalize]
//	  watch/... in front of these, as with ?watch=true (deprecated)
//
// ok is false for what is no resource path.
func parsePath(path string) (t target, ok bool) {
	switch {
	case strings.HasPrefix(path, "/api/"):
		path = path[len("/api/"):]
	case strings.HasPrefix(path, "/apis/"):
		path = path[len("/apis/"):]
		t.group, path, ok = strings.Cut(path, "/")
		if !ok || t.group == "" {
			return target{}, false
		}
	default:
		return target{}, false
	}
	t.version, path, ok = strings.Cut(path, "/")
	if !ok || t.version == "" || path == "" {
		return target{}, false
	}
	if after, old := strings.CutPrefix(path, "watch/"); old && after != "" {
		t.watch, path = true, after
	}
	first, path, _ := strings.Cut(path, "/")
	if first == "namespaces" {
		if path == "" {
			t.resource = first
			return t, true
		}
		ns, after, _ := strings.Cut(path, "/")
		if after == "" || after == "status" || after == "finalize" {
			t.resource, t.name, t.sub = first, ns, after
			return t, true
		}
		t.namespace, t.namespaced = ns, true
		first, path, _ = strings.Cut(after, "/")
	}
	t.resource = first
	t.name, path, _ = strings.Cut(path, "/")
	t.sub, t.rest, _ = strings.Cut(path, "/")
	return t, true
}
