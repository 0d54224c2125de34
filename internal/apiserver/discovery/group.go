package discovery

import (
	"slices"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/version"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// group is an API group with what it serves.
type group struct {
	name     string
	versions []*version // preferred first
}

type version struct {
	name      string
	resources []resource // by name
	remote    *Remote    // who serves it, when that is not this server
}

// resource is a kind as one version serves it.
type resource struct {
	kind    *kinds.Kind
	version *kinds.Version
}

// order of the groups as upstream's priorities have it: kubectl and others
// take the first group that serves a name. Groups that are not listed come
// after these, by name.
var order = []string{
	"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io",
	"authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io",
	"networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io",
	"coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io",
	"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io",
	"storagemigration.k8s.io", "lifecycle.k8s.io",
}

func rank(name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// groupKinds sorts kinds into groups.
func groupKinds(list []*kinds.Kind) []*group {
	byName := map[string]*group{}
	var groups []*group
	for _, k := range list {
		for i := range k.Versions {
			v := &k.Versions[i]
			if v.Unserved {
				continue
			}
			g := byName[v.GroupVersion.Group]
			if g == nil {
				g = &group{name: v.GroupVersion.Group}
				byName[g.name] = g
				groups = append(groups, g)
			}
			served := g.version(v.GroupVersion.Version)
			if served == nil {
				served = &version{name: v.GroupVersion.Version}
				g.versions = append(g.versions, served)
			}
			served.resources = append(served.resources, resource{k, v})
		}
	}
	sortGroups(groups)
	return groups
}

// sortGroups puts groups, their versions and what those serve in order.
func sortGroups(groups []*group) {
	slices.SortFunc(groups, func(a, b *group) int {
		if d := rank(a.name) - rank(b.name); d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	for _, g := range groups {
		slices.SortFunc(g.versions, func(a, b *version) int {
			return utilversion.CompareKubeAwareVersionStrings(b.name, a.name)
		})
		for _, v := range g.versions {
			slices.SortFunc(v.resources, func(a, b resource) int {
				return strings.Compare(a.kind.Resource.Resource, b.kind.Resource.Resource)
			})
		}
	}
}

func (g *group) version(name string) *version {
	for _, v := range g.versions {
		if v.name == name {
			return v
		}
	}
	return nil
}

func (g *group) groupVersion(v *version) string {
	if g.name == "" {
		return v.name
	}
	return g.name + "/" + v.name
}

// standard verbs, sorted as upstream lists them.
var standard = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

func (r *resource) verbs() []string {
	var out []string
	for _, v := range standard {
		if !slices.Contains(r.kind.NoVerbs, v) {
			out = append(out, v)
		}
	}
	return out
}

// subresources by name.
func (r *resource) subresources() []string {
	names := make([]string, 0, len(r.kind.Subresources))
	for name := range r.kind.Subresources {
		if r.kind.Subresource(r.version, name) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// subKind tells of what kind a subresource is, and its group and version if
// they are not those of the resource.
func (r *resource) subKind(name string) (group, version, kind string) {
	gvk := r.kind.Subresources[name].GroupVersionKind
	if gvk.Empty() {
		return "", "", r.kind.VersionKind(r.version)
	}
	if gvk.GroupVersion() == r.version.GroupVersion {
		return "", "", gvk.Kind
	}
	return gvk.Group, gvk.Version, gvk.Kind
}
