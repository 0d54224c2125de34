package crd

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// version is one version of a definition.
type version struct {
	gvk        schema.GroupVersionKind
	apiVersion string // of gvk
	// encoded is the schema, as protobuf; nil when there is none. It stands
	// for the definition, which may have gone from memory.
	encoded  []byte
	preserve bool // the whole definition keeps unknown fields
	status   bool // has the status subresource
	scale    *scale

	shape func() (*shape, error)
	rules func() (*rules, error)
}

func newVersion(crd *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) (*version, error) {
	out := &version{
		gvk:      schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: kindName(crd)},
		preserve: crd.Spec.PreserveUnknownFields,
	}
	out.apiVersion = out.gvk.GroupVersion().String()
	if v.Subresources != nil {
		out.status = v.Subresources.Status != nil
		out.scale = newScale(v.Subresources.Scale)
	}
	if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
		var err error
		if out.encoded, err = v.Schema.OpenAPIV3Schema.Marshal(); err != nil {
			return nil, err
		}
	}
	out.shape = sync.OnceValues(func() (*shape, error) {
		if out.encoded == nil {
			return &shape{}, nil
		}
		return compileShape(out.encoded)
	})
	out.rules = sync.OnceValues(func() (*rules, error) {
		if out.encoded == nil {
			return &rules{}, nil
		}
		sh, err := out.shape()
		if err != nil {
			return nil, err
		}
		return compileRules(out.encoded, sh.structural)
	})
	return out, nil
}

// newObject is an empty object of this version.
func (v *version) newObject() kinds.Object { return &Object{version: v} }

// prune drops what the schema does not know, and returns the paths of it when
// track is set.
func (v *version) prune(o *Object, track bool) (unknown []string, err error) {
	sh, err := v.shape()
	if err != nil {
		return nil, err
	}
	if sh.embedded {
		wrong, more := objectmeta.CoerceWithOptions(nil, o.Fields, sh.structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: track})
		if wrong != nil {
			return nil, wrong
		}
		unknown = append(unknown, more...)
	}
	if !v.preserve && sh.structural != nil && !sh.form.clean(o.Fields, false) {
		opts := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: track}
		unknown = append(unknown, pruning.PruneWithOptions(o.Fields, sh.structural, true, opts)...)
	}
	return unknown, nil
}

// fill puts the schema's defaults into an object.
func (v *version) fill(obj kinds.Object) {
	o := obj.(*Object)
	sh, err := v.shape()
	if err != nil || sh.structural == nil {
		return // reading has said so already
	}
	if v.preserve {
		return // such definitions have no defaults
	}
	if sh.form.sound(o.Fields) {
		sh.form.fill(o.Fields)
		return
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(o.Fields, sh.structural)
	if sh.defaults {
		defaulting.Default(o.Fields, sh.structural)
	}
}

// load reads a stored object of this version: what a newer schema no longer
// knows goes, what it has defaults for comes.
func (v *version) load(data []byte) (*Object, error) {
	o := &Object{version: v}
	if _, err := o.DecodeJSON(data, false); err != nil {
		return nil, err
	}
	v.fill(o)
	return o, nil
}
