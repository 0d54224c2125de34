package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// maxPatchOperations is how many operations one JSON patch may have.
const maxPatchOperations = 10000

// A list copied into itself doubles with each operation: what the copies of
// one JSON patch add up to may be no more than a request may carry.
func init() { jsonpatch.AccumulatedCopySizeLimit = maxBody }

// patchTypes are those served. Apply is left to the field managers: until they
// are there it answers 415.
var patchTypes = []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType}

func checkPatchType(sv *served, pt types.PatchType) error {
	accepted := make([]string, 0, len(patchTypes))
	for _, t := range patchTypes {
		if t == types.StrategicMergePatchType && sv.wire == nil {
			continue // needs the merge keys of a Go type
		}
		if t == pt {
			return nil
		}
		accepted = append(accepted, string(t))
	}
	return errUnsupportedMediaType(strings.Join(accepted, ", "))
}

// patch changes an object, or a view of it, as data says.
func (s *Server) patch(c *call, pt types.PatchType, data []byte) (answer, error) {
	if err := checkPatchType(c.sv, pt); err != nil {
		return answer{}, err
	}
	ch := c.sv.mainChange()
	if c.sub != "" {
		ch = c.sv.viewChange(c.sub, c.sv.kind.Subresources[c.sub])
	}
	ch.make = func(old kinds.Object) (kinds.Object, error) {
		versioned, err := c.sv.fromHub(old)
		if err != nil {
			return nil, err
		}
		obj, err := applyPatch(c, pt, data, versioned, c.sv.version.New, c.sv.gvk)
		if err != nil {
			return nil, err
		}
		if err := c.checkNames(obj); err != nil {
			return nil, err
		}
		if c.sv.version.Default != nil {
			c.sv.version.Default(obj)
		}
		return c.sv.toHub(obj)
	}
	return s.change(c, ch)
}

// applyPatch makes a new object of an old one, which it does not change.
func applyPatch(c *call, pt types.PatchType, patch []byte, old kinds.Object, newObject func() kinds.Object, gvk schema.GroupVersionKind) (kinds.Object, error) {
	if pt == types.StrategicMergePatchType {
		return applyStrategic(c, patch, old, newObject, gvk)
	}
	was, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	var patched []byte
	switch pt {
	case types.JSONPatchType:
		patched, err = applyJSONPatch(patch, was)
	case types.MergePatchType:
		patched, err = applyMergePatch(c, patch, was)
	}
	if err != nil {
		return nil, err
	}
	obj := newObject()
	strict, err := strictJSON(patched, obj)
	if err != nil {
		return nil, invalidPatch(string(patched), err)
	}
	if err := samePatchedType(obj, gvk); err != nil {
		return nil, err
	}
	return obj, c.strictPatch(strict, string(patched))
}

// samePatchedType: a patch may not make another kind of an object.
func samePatchedType(obj kinds.Object, want schema.GroupVersionKind) error {
	if got := obj.GetObjectKind().GroupVersionKind(); got != want {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version and kind in the data (%s) do not match the expected ones (%s)", got, want))
	}
	return nil
}

// strictPatch deals with fields that the type does not know.
func (c *call) strictPatch(strict []error, patched string) error {
	if len(strict) == 0 {
		return nil
	}
	switch c.fields {
	case fieldsStrict:
		return invalidPatch(patched, runtime.NewStrictDecodingError(strict))
	case fieldsWarn:
		c.warnings = c.warnings[:0]
		for _, e := range strict {
			c.warn(e.Error())
		}
	}
	return nil
}

func invalidPatch(patched string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), patched, err.Error())})
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

func applyJSONPatch(patch, was []byte) ([]byte, error) {
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(ops) > maxPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, len(ops)))
	}
	out, err := ops.Apply(was)
	if err != nil {
		return nil, unprocessable(err)
	}
	return out, nil
}

func applyMergePatch(c *call, patch, was []byte) ([]byte, error) {
	if c.fields != fieldsIgnore {
		// Duplicate keys would be merged away before anybody could see them.
		var v map[string]any
		strict, err := strictJSON(patch, &v)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if err := c.strictPatch(strict, string(patch)); err != nil {
			return nil, err
		}
	}
	out, err := jsonpatch.MergePatch(was, patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

func applyStrategic(c *call, patch []byte, old kinds.Object, newObject func() kinds.Object, gvk schema.GroupVersionKind) (kinds.Object, error) {
	was, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
	if err != nil {
		return nil, err
	}
	p := map[string]any{}
	strict, err := strictJSON(patch, &p)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(was, p, newObject())
	if err != nil {
		return nil, strategicError(err)
	}
	obj := newObject()
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, obj, c.fields != fieldsIgnore)
	if se, ok := runtime.AsStrictDecodingError(err); ok {
		strict = append(strict, se.Errors()...)
	} else if err != nil {
		return nil, invalidPatch(fmt.Sprintf("%+v", p), err)
	}
	if c.fields == fieldsIgnore {
		strict = nil
	}
	if err := samePatchedType(obj, gvk); err != nil {
		return nil, err
	}
	return obj, c.strictPatch(strict, fmt.Sprintf("%+v", p))
}

func strategicError(err error) error {
	switch err {
	case mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat:
		return apierrors.NewBadRequest(err.Error())
	}
	return unprocessable(err)
}
