package apply

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// converter is a kind as the merge library sees it: its conversions, defaults
// and types.
type converter struct{ k *Kind }

// version finds the version of a kind, by group and version.
func (k *Kind) version(gv schema.GroupVersion) (int, bool) {
	for i := range k.kind.Versions {
		if k.kind.Versions[i].GroupVersion == gv {
			return i, true
		}
	}
	return 0, false
}

func (k *Kind) gvk(version int) schema.GroupVersionKind {
	v := &k.kind.Versions[version]
	return v.GroupVersion.WithKind(k.kind.VersionKind(v))
}

// notServed says that a version is none of the kind's. Its type tells the
// library to forget managers of that version.
func notServed(gv schema.GroupVersion, kind string) error {
	return runtime.NewNotRegisteredErrForKind("apply", gv.WithKind(kind))
}

// ConvertToVersion implements runtime.ObjectConvertor. What it returns may be
// what it was given.
func (c converter) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	gv, ok := to.(schema.GroupVersion)
	if !ok {
		return nil, fmt.Errorf("apply: cannot convert to %v", to)
	}
	from, ok := c.k.version(in.GetObjectKind().GroupVersionKind().GroupVersion())
	if !ok {
		return nil, notServed(in.GetObjectKind().GroupVersionKind().GroupVersion(), c.k.kind.Kind)
	}
	target, ok := c.k.version(gv)
	if !ok {
		return nil, notServed(gv, c.k.kind.Kind)
	}
	obj, err := c.k.typed(in, from)
	if err != nil {
		return nil, err
	}
	return c.k.convert(obj, from, target)
}

// typed is an object in the Go type of its version.
func (k *Kind) typed(in runtime.Object, version int) (kinds.Object, error) {
	u, loose := in.(*unstructured.Unstructured)
	if !loose {
		obj, ok := in.(kinds.Object)
		if !ok {
			return nil, fmt.Errorf("apply: %T has no metadata", in)
		}
		return obj, nil
	}
	obj := k.kind.Versions[version].New()
	if d, ok := obj.(kinds.Dynamic); ok {
		data, err := json.Marshal(u.Object)
		if err == nil {
			_, err = d.DecodeJSON(data, false)
		}
		d.GetObjectKind().SetGroupVersionKind(k.gvk(version))
		return d, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return nil, err
	}
	return obj, nil
}

// convert goes from one version to another, by the hub.
func (k *Kind) convert(obj kinds.Object, from, to int) (kinds.Object, error) {
	if from == to {
		return obj, nil
	}
	var err error
	if f := k.kind.Versions[from].ToHub; f != nil {
		if obj, err = f(obj); err != nil {
			return nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(k.gvk(k.kind.Hub))
	}
	if f := k.kind.Versions[to].FromHub; f != nil {
		if obj, err = f(obj); err != nil {
			return nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(k.gvk(to))
	}
	return obj, nil
}

// Convert and ConvertFieldLabel complete runtime.ObjectConvertor; the library
// does not call them.
func (c converter) Convert(in, out, context any) error {
	return fmt.Errorf("apply: no conversion from %T to %T", in, out)
}

func (c converter) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter.
func (c converter) Default(in runtime.Object) {
	obj, ok := in.(kinds.Object)
	if !ok {
		return
	}
	if i, ok := c.k.version(obj.GetObjectKind().GroupVersionKind().GroupVersion()); ok {
		if d := c.k.kind.Versions[i].Default; d != nil {
			d(obj)
		}
	}
}

// New implements runtime.ObjectCreater.
func (c converter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	i, ok := c.k.version(gvk.GroupVersion())
	if !ok {
		return nil, notServed(gvk.GroupVersion(), gvk.Kind)
	}
	obj := c.k.kind.Versions[i].New()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c converter) ObjectToTyped(in runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	gv := in.GetObjectKind().GroupVersionKind().GroupVersion()
	i, ok := c.k.version(gv)
	if !ok {
		return nil, notServed(gv, c.k.kind.Kind)
	}
	t := c.k.parseable(i)
	if d, ok := in.(kinds.Dynamic); ok {
		in = d.Unstructured()
	}
	if u, ok := in.(*unstructured.Unstructured); ok {
		return t.FromUnstructured(u.Object, opts...)
	}
	return t.FromStructured(in, opts...)
}

// TypedToObject implements managedfields.TypeConverter.
func (c converter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	m, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("apply: the value is no object")
	}
	return &unstructured.Unstructured{Object: m}, nil
}
