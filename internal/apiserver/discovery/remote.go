package discovery

import (
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Remote is a version of a group that another server serves.
type Remote struct {
	GroupVersion schema.GroupVersion
	// Resources are what it said when it last answered; nil: it never did.
	Resources *metav1.APIResourceList
	// Current is false when it does not answer any more.
	Current bool
}

// Merge shows what remote returns as well. The version counter given to New
// has to move with it. Call it before the first request.
func (h *Handler) Merge(remote func() []Remote) { h.remote = remote }

// merge adds what other servers serve. What this server has comes first.
func (s *snapshot) merge(remote []Remote) {
	for i := range remote {
		r := &remote[i]
		g := s.group(r.GroupVersion.Group)
		if g == nil {
			g = &group{name: r.GroupVersion.Group}
			s.groups = append(s.groups, g)
		}
		if g.version(r.GroupVersion.Version) == nil {
			g.versions = append(g.versions, &version{name: r.GroupVersion.Version, remote: r})
		}
	}
	sortGroups(s.groups)
}

// list is the legacy document.
func (r *Remote) list(empty *metav1.APIResourceList) *metav1.APIResourceList {
	empty.APIVersion = "v1"
	if r.Resources != nil {
		empty.APIResources = r.Resources.APIResources
	}
	return empty
}

// aggregate fills the aggregated document in. What does not answer is stale:
// clients go on without it.
func (r *Remote) aggregate(out *apidiscovery.APIVersionDiscovery) {
	if !r.Current {
		out.Freshness = apidiscovery.DiscoveryFreshnessStale
	}
	if r.Resources == nil {
		return
	}
	at := map[string]int{}
	kindOf := func(in *metav1.APIResource) *metav1.GroupVersionKind {
		k := &metav1.GroupVersionKind{Group: in.Group, Version: in.Version, Kind: in.Kind}
		if k.Group == "" && k.Version == "" {
			k.Group, k.Version = r.GroupVersion.Group, r.GroupVersion.Version
		}
		return k
	}
	for i := range r.Resources.APIResources {
		in := &r.Resources.APIResources[i]
		name, sub, isSub := strings.Cut(in.Name, "/")
		n, there := at[name]
		if !there {
			n = len(out.Resources)
			at[name] = n
			out.Resources = append(out.Resources, apidiscovery.APIResourceDiscovery{Resource: name, Scope: scopeOf(in.Namespaced)})
		}
		res := &out.Resources[n]
		if isSub {
			res.Subresources = append(res.Subresources, apidiscovery.APISubresourceDiscovery{Subresource: sub, ResponseKind: kindOf(in), Verbs: in.Verbs})
			continue
		}
		res.ResponseKind, res.SingularResource, res.Verbs = kindOf(in), in.SingularName, in.Verbs
		res.ShortNames, res.Categories = in.ShortNames, in.Categories
	}
}

func scopeOf(namespaced bool) apidiscovery.ResourceScope {
	if namespaced {
		return apidiscovery.ScopeNamespace
	}
	return apidiscovery.ScopeCluster
}
