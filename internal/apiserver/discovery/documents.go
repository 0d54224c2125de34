package discovery

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// build makes the document at a path that s serves.
func (s *snapshot) build(path string, f format) object {
	legacy, name, version, _ := parts(path)
	switch {
	case f.aggregated() && f.version == "v2beta1":
		return beta(s.aggregate(legacy))
	case f.aggregated():
		return s.aggregate(legacy)
	case version != "":
		g := s.group(name)
		return resourceList(g, g.version(version))
	case name != "":
		g := apiGroup(s.group(name))
		g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		return &g
	}
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, g := range s.groups {
		if g.name != "" {
			list.Groups = append(list.Groups, apiGroup(g))
		}
	}
	return list
}

func apiGroup(g *group) metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: g.groupVersion(v), Version: v.name})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

func resourceList(g *group, v *version) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: g.groupVersion(v)}
	if v.remote != nil {
		return v.remote.list(list)
	}
	if g.name != "" {
		list.APIVersion = "v1" // as upstream: the core group's list has none
	}
	for _, r := range v.resources {
		k := r.kind
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name:               k.Resource.Resource,
			SingularName:       k.Singular,
			Namespaced:         k.Namespaced,
			Kind:               k.VersionKind(r.version),
			Verbs:              r.verbs(),
			ShortNames:         k.ShortNames,
			Categories:         k.Categories,
			StorageVersionHash: storageVersionHash(k),
		})
		for _, name := range r.subresources() {
			group, version, kind := r.subKind(name)
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name:       k.Resource.Resource + "/" + name,
				Namespaced: k.Namespaced,
				Group:      group,
				Version:    version,
				Kind:       kind,
				Verbs:      sorted(k.Subresources[name].Verbs),
			})
		}
	}
	return list
}

func sorted(verbs []string) []string { return slices.Sorted(slices.Values(verbs)) }

// storageVersionHash names the version that is stored, without telling it:
// clients notice by it that stored objects need to be migrated. Upstream's
// formula, so that an existing cluster's clients see no change.
func storageVersionHash(k *kinds.Kind) string {
	if k.StoragePrefix == "" {
		return ""
	}
	gvk := k.GVK()
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

func (s *snapshot) aggregate(legacy bool) *apidiscovery.APIGroupDiscoveryList {
	list := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	for _, g := range s.groups {
		if (g.name == "") != legacy {
			continue
		}
		item := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			item.Versions = append(item.Versions, aggregateVersion(v))
		}
		list.Items = append(list.Items, item)
	}
	return list
}

func aggregateVersion(v *version) apidiscovery.APIVersionDiscovery {
	out := apidiscovery.APIVersionDiscovery{Version: v.name, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	if v.remote != nil {
		v.remote.aggregate(&out)
		return out
	}
	for _, r := range v.resources {
		k := r.kind
		res := apidiscovery.APIResourceDiscovery{
			Resource:         k.Resource.Resource,
			ResponseKind:     &metav1.GroupVersionKind{Kind: k.VersionKind(r.version)},
			Scope:            apidiscovery.ScopeCluster,
			SingularResource: k.Singular,
			Verbs:            r.verbs(),
			ShortNames:       k.ShortNames,
			Categories:       k.Categories,
		}
		if k.Namespaced {
			res.Scope = apidiscovery.ScopeNamespace
		}
		for _, name := range r.subresources() {
			group, version, kind := r.subKind(name)
			res.Subresources = append(res.Subresources, apidiscovery.APISubresourceDiscovery{
				Subresource:  name,
				ResponseKind: &metav1.GroupVersionKind{Group: group, Version: version, Kind: kind},
				Verbs:        sorted(k.Subresources[name].Verbs),
			})
		}
		out.Resources = append(out.Resources, res)
	}
	return out
}

// beta is the same list in the version before; the fields are the same ones.
func beta(in *apidiscovery.APIGroupDiscoveryList) *apidiscoveryv2beta1.APIGroupDiscoveryList {
	out := &apidiscoveryv2beta1.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: schema.GroupVersion{Group: "apidiscovery.k8s.io", Version: "v2beta1"}.String()},
		Items:    []apidiscoveryv2beta1.APIGroupDiscovery{},
	}
	for _, g := range in.Items {
		item := apidiscoveryv2beta1.APIGroupDiscovery{ObjectMeta: g.ObjectMeta}
		for _, v := range g.Versions {
			ver := apidiscoveryv2beta1.APIVersionDiscovery{Version: v.Version, Freshness: apidiscoveryv2beta1.DiscoveryFreshness(v.Freshness)}
			for _, r := range v.Resources {
				res := apidiscoveryv2beta1.APIResourceDiscovery{
					Resource: r.Resource, ResponseKind: r.ResponseKind, Scope: apidiscoveryv2beta1.ResourceScope(r.Scope),
					SingularResource: r.SingularResource, Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
				}
				for _, sub := range r.Subresources {
					res.Subresources = append(res.Subresources, apidiscoveryv2beta1.APISubresourceDiscovery{
						Subresource: sub.Subresource, ResponseKind: sub.ResponseKind, Verbs: sub.Verbs,
					})
				}
				ver.Resources = append(ver.Resources, res)
			}
			item.Versions = append(item.Versions, ver)
		}
		out.Items = append(out.Items, item)
	}
	return out
}
