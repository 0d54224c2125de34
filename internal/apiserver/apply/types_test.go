package apply

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

// published is the schema that client-go carries for its own apply clients.
func published(t testing.TB) *smd.Schema {
	t.Helper()
	obj := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	tv, err := applyconfigurations.NewTypeConverter(scheme.Scheme).ObjectToTyped(obj)
	if err != nil {
		t.Fatal(err)
	}
	return tv.Schema()
}

// TestTypesAsPublished holds every type of every kind against client-go's.
func TestTypesAsPublished(t *testing.T) {
	theirs := published(t)
	d := newDefs()
	found := map[string]bool{}
	for _, k := range all.Kinds() {
		for i := range k.Versions {
			v := &k.Versions[i]
			p := d.parseable(reflect.TypeOf(v.New()))
			for _, td := range p.Schema.Types {
				if td.Name == atomicType || td.Name == deducedType || found[td.Name] {
					continue
				}
				found[td.Name] = true
				want, ok := theirs.FindNamedType(td.Name)
				if !ok {
					continue // no client applies it: lists, reviews
				}
				for _, diff := range differences(p, theirs, td, want) {
					t.Error(diff)
				}
			}
		}
	}
	if len(found) < 400 {
		t.Errorf("only %d types compared", len(found))
	}
}

func differences(p typed.ParseableType, theirs *smd.Schema, got, want smd.TypeDef) (out []string) {
	a, b := flat(p.Schema, got), flat(theirs, want)
	keys := slices.Collect(func(yield func(string) bool) {
		for k := range a {
			yield(k)
		}
		for k := range b {
			if _, ok := a[k]; !ok {
				yield(k)
			}
		}
	})
	sort.Strings(keys)
	for _, k := range keys {
		if a[k] != b[k] {
			out = append(out, fmt.Sprintf("%s%s: %s, published %s", short(got.Name), k, a[k], b[k]))
		}
	}
	return out
}

// flat writes a type as lines by field.
func flat(s *smd.Schema, td smd.TypeDef) map[string]string {
	out := map[string]string{}
	if td.Map != nil && len(td.Map.Fields) > 0 {
		out[""] = "struct " + string(relation(td.Map.ElementRelationship))
		keyed := func(f smd.StructField) string {
			if f.Default != nil && f.Default != "" && f.Default != int64(0) && f.Default != float64(0) && f.Default != false && reflect.TypeOf(f.Default).Kind() != reflect.Map {
				return fmt.Sprintf(" default %v", f.Default)
			}
			return ""
		}
		for _, f := range td.Map.Fields {
			out["."+f.Name] = refString(s, f.Type)
			if isKey(td.Name, f.Name) {
				out["."+f.Name] += keyed(f)
			}
		}
		return out
	}
	out[""] = atomString(s, td.Atom)
	return out
}

// isKey: only of these do the defaults matter.
func isKey(owner, field string) bool {
	return field == "protocol" && (strings.HasSuffix(owner, "ContainerPort") || strings.HasSuffix(owner, "ServicePort"))
}

func relation(r smd.ElementRelationship) smd.ElementRelationship {
	if r == "" {
		return smd.Separable
	}
	return r
}

func refString(s *smd.Schema, r smd.TypeRef) string {
	over := ""
	if r.ElementRelationship != nil {
		over = string(*r.ElementRelationship) + " "
	}
	if r.NamedType != nil {
		return over + *r.NamedType
	}
	return over + atomString(s, r.Inlined)
}

func atomString(s *smd.Schema, a smd.Atom) string {
	var parts []string
	if a.Scalar != nil {
		parts = append(parts, string(*a.Scalar))
	}
	if a.List != nil {
		parts = append(parts, fmt.Sprintf("list %s %q of %s", a.List.ElementRelationship, a.List.Keys, refString(s, a.List.ElementType)))
	}
	if a.Map != nil {
		parts = append(parts, fmt.Sprintf("map %s of %s", relation(a.Map.ElementRelationship), refString(s, a.Map.ElementType)))
	}
	return strings.Join(parts, " or ")
}
