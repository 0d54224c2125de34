package apiserver

import (
	"errors"
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

// patchTypes are those served.
var patchTypes = []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType, types.ApplyCBORPatchType}

// isApply tells of the two media types of a server-side apply.
func isApply(pt types.PatchType) bool {
	return pt == types.ApplyYAMLPatchType || pt == types.ApplyCBORPatchType
}

func checkPatchType(sv *served, pt types.PatchType) error {
	accepted := make([]string, 0, len(patchTypes))
	for _, t := range patchTypes {
		if t == types.StrategicMergePatchType && sv.wire == nil {
			continue // needs the merge keys of a Go type
		}
		if t == pt {
			return nil
		}
		if t != types.ApplyCBORPatchType { // see acceptedTypes
			accepted = append(accepted, string(t))
		}
	}
	return errUnsupportedMediaType(strings.Join(accepted, ", "))
}

// patch changes an object, or a view of it, as data says.
func (s *Server) patch(c *call, pt types.PatchType, data []byte) (answer, error) {
	if err := checkPatchType(c.sv, pt); err != nil {
		return answer{}, err
	}
	if isApply(pt) {
		return s.apply(c, data, pt)
	}
	ch := c.sv.mainChange()
	if c.sub != "" {
		ch = c.sv.viewChange(c.sub, c.sv.kind.Subresources[c.sub])
	}
	warned := len(c.warnings)
	ch.make = func(old kinds.Object) (kinds.Object, error) {
		c.warnings = c.warnings[:warned] // those of a try that lost
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
	was, err := marshalObject(old)
	if err != nil {
		return nil, err
	}
	var patched []byte
	var strict []error
	switch pt {
	case types.JSONPatchType:
		patched, strict, err = applyJSONPatch(c, patch, was)
	case types.MergePatchType:
		patched, strict, err = applyMergePatch(c, patch, was)
	}
	if err != nil {
		return nil, err
	}
	obj := newObject()
	unknown, err := decodeJSON(patched, c.fields, obj)
	if err != nil {
		return nil, invalidPatch(string(patched), err)
	}
	if err := samePatchedType(obj, gvk); err != nil {
		return nil, err
	}
	return obj, c.strictPatch(append(strict, unknown...), string(patched))
}

// samePatchedType: a patch may not make another kind of an object.
func samePatchedType(obj kinds.Object, want schema.GroupVersionKind) error {
	if got := obj.GetObjectKind().GroupVersionKind(); got != want {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version and kind in the data (%s) do not match the expected ones (%s)", got, want))
	}
	return nil
}

// strictPatch deals with what a strict reading found wrong with a patch, or
// with what came of it.
func (c *call) strictPatch(strict []error, patched string) error {
	if len(strict) == 0 {
		return nil
	}
	switch c.fields {
	case fieldsStrict:
		return invalidPatch(patched, runtime.NewStrictDecodingError(strict))
	case fieldsWarn:
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

// patchOperation is what one operation of a JSON patch may say.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func applyJSONPatch(c *call, patch, was []byte) (patched []byte, strict []error, err error) {
	if c.fields != fieldsIgnore {
		var said []patchOperation
		if strict, err = strictJSON(patch, &said); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		for i, e := range strict {
			strict[i] = fmt.Errorf("json patch %w", e)
		}
	}
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(ops) > maxPatchOperations {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, len(ops)))
	}
	patched, err = ops.Apply(was)
	if err != nil {
		return nil, nil, unprocessable(err)
	}
	return patched, strict, nil
}

func applyMergePatch(c *call, patch, was []byte) (patched []byte, strict []error, err error) {
	if c.fields != fieldsIgnore {
		// Duplicate keys would be merged away before anybody could see them.
		v := map[string]any{}
		if strict, err = strictJSON(patch, &v); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
	}
	patched, err = jsonpatch.MergePatch(was, patch)
	if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
		err = apierrors.NewBadRequest(err.Error())
	}
	return patched, strict, err
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
	if err := samePatchedType(obj, gvk); err != nil {
		return nil, err
	}
	return obj, c.strictPatch(strict, fmt.Sprintf("%+v", p))
}

// strategicError says whose fault it is: a patch that cannot be read is a bad
// request, one that cannot be done is unprocessable, and the rest upstream
// calls internal.
func strategicError(err error) error {
	switch err {
	case mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat:
		return apierrors.NewBadRequest(err.Error())
	case mergepatch.ErrNoListOfLists, mergepatch.ErrPatchContentNotMatchRetainKeys:
		return unprocessable(err)
	}
	return err
}
