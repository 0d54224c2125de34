package apiextensions

import (
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// listMap checks x-kubernetes-list-type and x-kubernetes-list-map-keys.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy
func (w *walk) listMap(s *apiextensions.JSONSchemaProps, path *field.Path) {
	kind := ""
	if s.XListType != nil {
		kind = *s.XListType
	}
	const array = "must be array if x-kubernetes-list-type is specified"
	switch {
	case s.XListType == nil:
	case s.Type == "":
		w.required(path.Child("type"), array)
	case s.Type != "array":
		w.invalid(path.Child("type"), s.Type, array)
	case kind == "set":
		w.atomicItems(s, path.Child("items"))
	}
	if accepted := []string{"atomic", "set", "map"}; s.XListType != nil && !slices.Contains(accepted, kind) {
		w.errs = append(w.errs, field.NotSupported(path.Child("x-kubernetes-list-type"), kind, accepted))
	}
	if len(s.XListMapKeys) > 0 && kind != "map" {
		const detail = "must be map if x-kubernetes-list-map-keys is non-empty"
		if at := path.Child("x-kubernetes-list-type"); s.XListType == nil {
			w.required(at, detail)
		} else {
			w.invalid(at, kind, detail)
		}
	}
	if kind == "map" {
		w.mapItems(s, path)
	}
}

// atomicItems: what is in a set is compared as a whole.
func (w *walk) atomicItems(s *apiextensions.JSONSchemaProps, path *field.Path) {
	if s.Items == nil || s.Items.Schema == nil {
		return
	}
	const detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
	switch item := s.Items.Schema; item.Type {
	case "array":
		if item.XListType != nil && *item.XListType != "atomic" {
			w.invalid(path.Child("x-kubernetes-list-type"), item.XListType, detail)
		}
	case "object":
		if item.XMapType == nil || *item.XMapType != "atomic" {
			w.invalid(path.Child("x-kubernetes-map-type"), item.XListType, detail)
		}
	}
}

// mapItems: what is in a map is found by its keys.
func (w *walk) mapItems(s *apiextensions.JSONSchemaProps, path *field.Path) {
	keys, items := path.Child("x-kubernetes-list-map-keys"), path.Child("items")
	if len(s.XListMapKeys) == 0 {
		w.required(keys, "must not be empty if x-kubernetes-list-type is map")
	}
	switch {
	case s.Items == nil:
		w.required(items, "must have a schema if x-kubernetes-list-type is map")
		return
	case s.Items.Schema == nil:
		w.invalid(items, s.Items, "must only have a single schema if x-kubernetes-list-type is map")
		return
	case s.Items.Schema.Type != "object":
		w.invalid(items.Child("type"), s.Items.Schema.Type, "must be object if parent array's x-kubernetes-list-type is map")
		return
	}
	item, seen := s.Items.Schema, map[string]bool{}
	for _, k := range s.XListMapKeys {
		if p, ok := item.Properties[k]; !ok {
			w.invalid(keys, s.XListMapKeys, "entries must all be names of item properties")
		} else if p.Type == "array" || p.Type == "object" {
			w.invalid(items.Child("properties").Key(k).Child("type"), item.Type, "must be a scalar type if parent array's x-kubernetes-list-type is map")
		}
		if seen[k] {
			w.invalid(keys, s.XListMapKeys, "must not contain duplicate entries")
		}
		seen[k] = true
	}
}

// keys: items of sets and maps are there, and so are the keys of a map's.
func (w *walk) keys(s *apiextensions.JSONSchemaProps, path *field.Path) {
	if s.Items == nil || s.Items.Schema == nil || s.XListType == nil || *s.XListType != "set" && *s.XListType != "map" {
		return
	}
	item, items := s.Items.Schema, path.Child("items")
	if item.Nullable {
		w.forbidden(items.Child("nullable"), "cannot be nullable when x-kubernetes-list-type is "+*s.XListType)
	}
	if *s.XListType != "map" {
		return
	}
	for _, k := range s.XListMapKeys {
		p, ok := item.Properties[k]
		if !ok {
			continue // said above
		}
		at := items.Child("properties").Key(k)
		if !slices.Contains(item.Required, k) && p.Default == nil {
			w.required(at.Child("default"), "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property")
		}
		if p.Nullable {
			w.forbidden(at.Child("nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable")
		}
	}
}
