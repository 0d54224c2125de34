package aggregation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/discovery"
	"github.com/setpoint-project/setpoint/internal/client"
)

// Foreign lists what is served behind services, each resource in one version,
// for loops that work on every kind. What does not answer is listed as it was
// last seen, and marked.
func (a *Aggregator) Foreign() (infos []client.ResourceInfo) {
	seen := map[schema.GroupResource]bool{}
	remote := a.Remote()
	slices.SortStableFunc(remote, func(x, y discovery.Remote) int {
		switch { // who answers says what a resource is like
		case x.Current == y.Current:
			return 0
		case x.Current:
			return -1
		}
		return 1
	})
	for _, r := range remote {
		if r.Resources == nil || len(r.Resources.APIResources) == 0 {
			if !r.Current {
				infos = append(infos, client.ResourceInfo{Resource: r.GroupVersion.WithResource(""), Stale: true})
			}
			continue
		}
		for i := range r.Resources.APIResources {
			in := &r.Resources.APIResources[i]
			res := r.GroupVersion.WithResource(in.Name)
			if strings.Contains(in.Name, "/") || seen[res.GroupResource()] {
				continue
			}
			seen[res.GroupResource()] = true
			infos = append(infos, client.ResourceInfo{Resource: res, Kind: in.Kind, Namespaced: in.Namespaced, Verbs: in.Verbs, Stale: !r.Current})
		}
	}
	return infos
}
