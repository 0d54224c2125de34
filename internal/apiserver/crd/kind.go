package crd

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/version"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// newKind describes what a definition defines, under the names that it was
// given.
func newKind(crd *apiextensionsv1.CustomResourceDefinition, c converter) (*kinds.Kind, error) {
	names := crd.Status.AcceptedNames
	d := &definition{versions: map[string]*version{}, converter: c}
	k := &kinds.Kind{
		Resource: schema.GroupResource{Group: crd.Spec.Group, Resource: names.Plural},
		Kind:     names.Kind, ListKind: names.ListKind, Singular: names.Singular,
		ShortNames: names.ShortNames, Categories: names.Categories,
		Namespaced:    crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		StoragePrefix: "/registry/" + crd.Spec.Group + "/" + crd.Spec.Names.Plural + "/",
		Hub:           -1,
		Warnings:      warnings,
		Decode:        d.decode,
		Subresources:  map[string]*kinds.Subresource{},
	}
	for _, in := range preferredFirst(crd.Spec.Versions) {
		v, err := newVersion(crd, in)
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", in.Name, err)
		}
		d.versions[v.gvk.GroupVersion().String()] = v
		if in.Storage {
			k.Hub, d.hub = len(k.Versions), v
		}
		k.Versions = append(k.Versions, d.serve(crd, in, v))
	}
	if d.hub == nil {
		return nil, fmt.Errorf("no version is stored")
	}
	d.head = []byte(`{"apiVersion":"` + d.hub.gvk.GroupVersion().String() + `",`)
	hub := &k.Versions[k.Hub]
	hub.ToHub, hub.FromHub = nil, nil
	s := strategy{status: d.hub.status}
	k.PrepareCreate, k.PrepareUpdate = s.prepareCreate, s.prepareUpdate
	d.subresources(k, s)
	return k, nil
}

// preferredFirst sorts versions as clients prefer them: v2 before v1 before
// v1beta1.
func preferredFirst(versions []apiextensionsv1.CustomResourceDefinitionVersion) []*apiextensionsv1.CustomResourceDefinitionVersion {
	out := make([]*apiextensionsv1.CustomResourceDefinitionVersion, len(versions))
	for i := range versions {
		out[i] = &versions[i]
	}
	slices.SortStableFunc(out, func(a, b *apiextensionsv1.CustomResourceDefinitionVersion) int {
		return utilversion.CompareKubeAwareVersionStrings(b.Name, a.Name)
	})
	return out
}

// kindName is the kind that a definition was given, or asks for.
func kindName(crd *apiextensionsv1.CustomResourceDefinition) string {
	if k := crd.Status.AcceptedNames.Kind; k != "" {
		return k
	}
	return crd.Spec.Names.Kind
}

// definition is what the versions of a kind share.
type definition struct {
	versions  map[string]*version // by apiVersion, served or not
	hub       *version
	head      []byte // how an object begins that is stored as the hub
	converter converter
}

// serve describes one version.
func (d *definition) serve(crd *apiextensionsv1.CustomResourceDefinition, in *apiextensionsv1.CustomResourceDefinitionVersion, v *version) kinds.Version {
	out := kinds.Version{
		GroupVersion: v.gvk.GroupVersion(),
		New:          v.newObject,
		NewList:      func() runtime.Object { return &unstructured.UnstructuredList{} },
		Default:      v.fill,
		ToHub:        func(obj kinds.Object) (kinds.Object, error) { return d.convert(obj, d.hub) },
		FromHub:      func(obj kinds.Object) (kinds.Object, error) { return d.convert(obj, v) },
		Unserved:     !in.Served,
		Validate:     v.validate,
		Columns:      columns(in.AdditionalPrinterColumns),
		Schema:       Schema{v},
		Subresources: []string{},
	}
	if v.status {
		out.Subresources = append(out.Subresources, "status")
	}
	if v.scale != nil {
		out.Subresources = append(out.Subresources, "scale")
	}
	out.FieldNames, out.SelectableFields = selectable(in.SelectableFields)
	if in.Deprecated {
		out.Warning = fmt.Sprintf("%s/%s %s is deprecated", crd.Spec.Group, in.Name, kindName(crd))
		if in.DeprecationWarning != nil {
			out.Warning = *in.DeprecationWarning
		}
	}
	return out
}

// subresources are those that any version has. The scale of each goes by paths
// of its own.
func (d *definition) subresources(k *kinds.Kind, s strategy) {
	verbs := []string{"get", "patch", "update"}
	for i := range k.Versions {
		out := &k.Versions[i]
		v := d.versions[out.GroupVersion.String()]
		if v.status {
			k.Subresources["status"] = &kinds.Subresource{Verbs: verbs, PrepareUpdate: s.prepareStatus}
		}
		if v.scale == nil {
			continue
		}
		sub := v.scale.subresource(out)
		sub.Verbs = verbs
		out.Own = map[string]*kinds.Subresource{"scale": sub}
		if k.Subresources["scale"] == nil || v == d.hub {
			k.Subresources["scale"] = sub
		}
	}
}
