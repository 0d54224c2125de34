package crd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Object is a custom resource. Its metadata is typed, as the server reads it
// all the time; the rest is as JSON has it: maps, slices, strings, int64s,
// float64s, bools and nils.
type Object struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	// Fields are all but apiVersion, kind and metadata.
	Fields map[string]any

	version *version // whose schema reading goes by; nil: none
}

var _ kinds.Dynamic = (*Object)(nil)

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	out := &Object{TypeMeta: o.TypeMeta, version: o.version, Fields: runtime.DeepCopyJSON(o.Fields)}
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// shallow copies what is changed on the way through the server, and shares
// what lies deeper.
func (o *Object) shallow() *Object {
	out := *o
	out.Fields = make(map[string]any, len(o.Fields))
	for k, v := range o.Fields {
		out.Fields[k] = v
	}
	return &out
}

// Body implements kinds.Dynamic.
func (o *Object) Body() map[string]any { return o.Fields }

// Unstructured implements kinds.Dynamic.
func (o *Object) Unstructured() *unstructured.Unstructured {
	content := o.content()
	meta, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&o.ObjectMeta)
	if err != nil { // no value of an ObjectMeta leads here
		meta = map[string]any{"name": o.Name, "namespace": o.Namespace}
	}
	content["metadata"] = meta
	return &unstructured.Unstructured{Object: content}
}

// content is the object as schemas see it: of the metadata they may speak of
// the names alone.
func (o *Object) content() map[string]any {
	out := make(map[string]any, len(o.Fields)+3)
	for k, v := range o.Fields {
		out[k] = v
	}
	out["apiVersion"], out["kind"] = o.APIVersion, o.Kind
	meta := map[string]any{}
	for k, v := range map[string]string{"name": o.Name, "generateName": o.GenerateName, "namespace": o.Namespace} {
		if v != "" {
			meta[k] = v
		}
	}
	out["metadata"] = meta
	return out
}

// nested finds what lies at a path of fields.
func (o *Object) nested(path []string) (any, bool) {
	var at any = o.Fields
	for _, name := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = m[name]; !ok {
			return nil, false
		}
	}
	return at, true
}

// keys of the object in the order in which they are written, added to keys.
func (o *Object) keys(keys []string) []string {
	return sortedKeys(o.Fields, append(keys, "apiVersion", "kind", "metadata"))
}
