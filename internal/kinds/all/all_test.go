package all

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

func TestKindsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if p := k.StoragePrefix; p != "" {
			if seen[p] || !strings.HasPrefix(p, "/registry/") || !strings.HasSuffix(p, "/") {
				t.Errorf("%s is stored at %q, which is taken or malformed", k.Kind, p)
			}
			seen[p] = true
		}
		if len(k.FieldNames) > 0 != (k.SelectableFields != nil) {
			t.Errorf("%s: FieldNames and SelectableFields do not agree", k.Kind)
		}
		for i := range k.Versions {
			v := &k.Versions[i]
			if v.New() == nil || k.StoragePrefix != "" && v.NewList() == nil {
				t.Errorf("%v has no types", v.GroupVersion.WithKind(k.Kind))
			}
			if i != k.Hub && (v.ToHub == nil || v.FromHub == nil) {
				t.Errorf("%v has no conversions", v.GroupVersion.WithKind(k.Kind))
			}
		}
	}
}

// TestServedAsUpstream compares with testdata/served.txt: what a Kubernetes
// 1.37 serves in its GA versions, a line a resource, derived from its discovery
// documents.
func TestServedAsUpstream(t *testing.T) {
	data, err := os.ReadFile("testdata/served.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(data)), "\n")
	var got []string
	for _, k := range Kinds() {
		for i := range k.Versions {
			got = append(got, served(k, &k.Versions[i])...)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is served differs from upstream (-want +got):\n%s", diff)
	}
}

func served(k *kinds.Kind, v *kinds.Version) (out []string) {
	line := func(resource, kind, singular string, shorts, categories, verbs []string) {
		scope := "cluster"
		if k.Namespaced {
			scope = "namespaced"
		}
		list := func(l []string) string {
			if len(l) == 0 {
				return "-"
			}
			return strings.Join(l, ",")
		}
		out = append(out, strings.Join([]string{
			v.GroupVersion.String(), resource, kind, singular, scope, list(shorts), list(categories), list(verbs),
		}, " "))
	}
	var verbs []string
	for _, verb := range []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} {
		if !slices.Contains(k.NoVerbs, verb) {
			verbs = append(verbs, verb)
		}
	}
	line(k.Resource.Resource, k.VersionKind(v), k.Singular, k.ShortNames, k.Categories, verbs)
	for name, sub := range k.Subresources {
		kind := k.VersionKind(v)
		if gvk := sub.GroupVersionKind; !gvk.Empty() {
			kind = gvk.Kind
			if gvk.GroupVersion() != v.GroupVersion && gvk.GroupVersion() != (schema.GroupVersion{}) {
				kind = gvk.Group + "/" + gvk.Version + "/" + gvk.Kind
			}
		}
		line(k.Resource.Resource+"/"+name, kind, "-", nil, nil, slices.Sorted(slices.Values(sub.Verbs)))
	}
	return out
}
