package dynamic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// applyPatch changes the object of a request by a JSON patch made for a view of
// it, and tells whether that changed anything.
func applyPatch(r *admission.Request, v *view, text []byte) (bool, error) {
	if r.Object == nil {
		return false, errors.New("a patch for a request without an object")
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return false, err
	}
	if len(patch) == 0 {
		return false, nil
	}
	before, err := encode(v.object)
	if err != nil {
		return false, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return false, err
	}
	if bytes.Equal(before, after) || jsonpatch.Equal(before, after) {
		return false, nil
	}
	return true, replace(r, v, after)
}

// replace makes an object in JSON the request's.
func replace(r *admission.Request, v *view, data []byte) error {
	if sub := subtype(r); sub != nil {
		changed := newOf(sub, r.Object)
		if err := json.Unmarshal(data, changed); err != nil {
			return err
		}
		if sub.Set == nil {
			r.Object = changed
			return nil
		}
		obj, err := sub.Set(r.Object, changed)
		if err != nil {
			return err
		}
		r.Object = obj
		return nil
	}
	obj := v.kinds.New()
	if d, ok := obj.(kinds.Dynamic); ok {
		if _, err := d.DecodeJSON(data, false); err != nil {
			return err
		}
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(data, obj); err != nil {
		return err
	}
	if v.kinds.Default != nil {
		v.kinds.Default(obj)
	}
	if v.kinds.ToHub != nil {
		hub, err := v.kinds.ToHub(obj)
		if err != nil {
			return err
		}
		obj = hub
	}
	if got, want := obj.GetName(), r.Object.GetName(); got != want {
		return fmt.Errorf("the name of the object may not be changed from %q to %q", want, got)
	}
	if obj.GetNamespace() != r.Object.GetNamespace() {
		return errors.New("the namespace of the object may not be changed")
	}
	r.Object = obj
	return nil
}

// checkFields refuses an object in JSON with fields that its type does not
// have, or has twice.
func checkFields(r *admission.Request, v *view, data []byte) error {
	obj := kinds.Object(nil)
	if sub := subtype(r); sub != nil {
		obj = newOf(sub, r.Object)
	} else {
		obj = v.kinds.New()
	}
	var strict []error
	var err error
	if d, ok := obj.(kinds.Dynamic); ok {
		strict, err = d.DecodeJSON(data, true)
	} else {
		strict, err = kjson.UnmarshalStrict(data, obj)
	}
	if err != nil {
		return err
	}
	if len(strict) > 0 {
		return runtime.NewStrictDecodingError(strict)
	}
	return nil
}
