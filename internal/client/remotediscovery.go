package client

import (
	"context"
	"encoding/json"
	"fmt"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
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

func resourcesOf(group discoveryv2.APIGroupDiscovery) (infos []ResourceInfo) {
	seen := map[string]bool{}
	for _, version := range group.Versions {
		for _, res := range version.Resources {
			if seen[res.Resource] {
				continue
			}
			seen[res.Resource] = true
			info := ResourceInfo{
				Resource:   Resource{Group: group.Name, Version: version.Version, Resource: res.Resource},
				Namespaced: res.Scope == discoveryv2.ScopeNamespace,
				Verbs:      res.Verbs,
			}
			if res.ResponseKind != nil {
				info.Kind = res.ResponseKind.Kind
			}
			infos = append(infos, info)
		}
	}
	return infos
}
