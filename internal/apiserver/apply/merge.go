package apply

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Merge returns live, an object of version gv, with the fields that patch sets,
// merged as an apply would. Nobody comes to own them, and nothing is taken
// away. Lists, maps and structs that belong to one owner as a whole may not be
// in patch: all of them that it does not repeat would be lost. Changes patch.
func (k *Kind) Merge(gv schema.GroupVersion, live kinds.Object, patch map[string]any) (kinds.Object, error) {
	version, ok := k.version(gv)
	if !ok {
		return nil, notServed(gv, k.kind.Kind)
	}
	apiVersion, kind := k.gvk(version).ToAPIVersionAndKind()
	patch["apiVersion"], patch["kind"] = apiVersion, kind
	c := converter{k}
	change, err := c.ObjectToTyped(&unstructured.Unstructured{Object: patch})
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if whole := atomics(nil, change.Schema(), change.TypeRef(), change.AsValue()); len(whole) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %s", strings.Join(whole, ", "))
	}
	was, err := c.ObjectToTyped(live, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	merged, err := was.Merge(change)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	obj, err := c.TypedToObject(merged)
	if err != nil {
		return nil, err
	}
	return k.typed(obj, version)
}

// atomics are the places in v that are merged as a whole.
func atomics(at fieldpath.Path, s *smd.Schema, t smd.TypeRef, v value.Value) (found []string) {
	atom, ok := s.Resolve(t)
	if !ok || v == nil {
		return nil
	}
	switch {
	case v.IsMap() && atom.Map != nil:
		if atom.Map.ElementRelationship == smd.Atomic {
			return []string{at.String()}
		}
		v.AsMap().Iterate(func(key string, item value.Value) bool {
			// Items of a map without fields are told by none: their type may be
			// anything, labels above all.
			if f, ok := atom.Map.FindField(key); ok {
				found = append(found, atomics(append(at, fieldpath.PathElement{FieldName: &key}), s, f.Type, item)...)
			}
			return true
		})
	case v.IsList() && atom.List != nil:
		if atom.List.ElementRelationship == smd.Atomic {
			return []string{at.String()}
		}
		list := v.AsList()
		for i := range list.Length() {
			found = append(found, atomics(append(at, fieldpath.PathElement{Index: &i}), s, atom.List.ElementType, list.At(i))...)
		}
	}
	return found
}
