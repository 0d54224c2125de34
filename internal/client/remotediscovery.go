package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime"
)

// aggregated asks for all groups in one answer.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// Resources reads discovery, each resource in the first of its versions, which
// is the one that its group prefers.
func (r *Remote) Resources(ctx context.Context) ([]ResourceInfo, error) {
	var all []ResourceInfo
	for _, path := range []string{"/api", "/apis"} {
		raw, err := r.plain.Get().AbsPath(path).SetHeader("Accept", aggregated).Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		var list discoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("client: discovery at %s: %w", path, err)
		}
		for _, group := range list.Items {
			all = append(all, resourcesOf(group)...)
		}
	}
	return all, nil
}

// Raw reads a path as JSON.
func (r *Remote) Raw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	req := r.plain.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON)
	for key, values := range query {
		for _, v := range values {
			req = req.Param(key, v)
		}
	}
	return req.Do(ctx).Raw()
}

func resourcesOf(group discoveryv2.APIGroupDiscovery) (infos []ResourceInfo) {
	seen := map[string]bool{}
	for _, version := range group.Versions {
		stale := version.Freshness == discoveryv2.DiscoveryFreshnessStale
		if stale && len(version.Resources) == 0 {
			infos = append(infos, ResourceInfo{Resource: Resource{Group: group.Name, Version: version.Version}, Stale: true})
		}
		for _, res := range version.Resources {
			if seen[res.Resource] {
				continue
			}
			seen[res.Resource] = true
			info := ResourceInfo{
				Resource:   Resource{Group: group.Name, Version: version.Version, Resource: res.Resource},
				Namespaced: res.Scope == discoveryv2.ScopeNamespace,
				Verbs:      res.Verbs,
				Stale:      stale,
			}
			if res.ResponseKind != nil {
				info.Kind = res.ResponseKind.Kind
			}
			infos = append(infos, info)
		}
	}
	return infos
}
