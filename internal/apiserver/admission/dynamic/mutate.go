package dynamic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	celmutation "k8s.io/apiserver/pkg/cel/mutation"
	celobject "k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// step lets one expression of a policy change the object of a request.
func (h *Hooks) step(ctx context.Context, u *run, i int, r *admission.Request, v *view, ns *corev1.Namespace) error {
	e := u.compiled().steps[i]
	if errs := e.CompilationErrors(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	vars := cel.OptionalVariableBindings{VersionedParams: u.param, Authorizer: asUpstream{h.cfg.Authorizer}}
	// Variables are evaluated at most once for each expression.
	out, _, err := e.ForInput(u.compiled().composer.CreateContext(ctx), v.attrs, v.request, vars, cel.CreateNamespaceObject(ns), celconfig.RuntimeCELCostBudget)
	if err != nil {
		return err
	}
	if out.Error != nil {
		return out.Error
	}
	if u.spec.Mutations[i].PatchType == admissionregistrationv1.PatchTypeJSONPatch {
		return patchAs(out.EvalResult, r, v)
	}
	return h.mergeAs(out.EvalResult, r, v)
}

// mergeAs sets the fields of an object that was made by an expression.
func (h *Hooks) mergeAs(result ref.Val, r *admission.Request, v *view) error {
	made, ok := result.(*celobject.ObjectVal)
	if !ok {
		return fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", result.Type())
	}
	if err := made.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return fmt.Errorf("type mismatch: %w", err)
	}
	patch, ok := made.Value().(map[string]any)
	if !ok {
		return fmt.Errorf("invalid return type: %T", made.Value())
	}
	if h.cfg.Fields == nil {
		return errors.New("no objects can be merged")
	}
	fields := h.cfg.Fields(r.Resource, r.Subresource)
	live, ok := v.object.(kinds.Object)
	if fields == nil || !ok {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("Resource kind %s not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.", v.gvk))
	}
	merged, err := fields.Merge(v.gvk.GroupVersion(), live, patch)
	if err != nil {
		return fmt.Errorf("error applying patch: %w", err)
	}
	data, err := encode(merged)
	if err != nil {
		return err
	}
	return replaceStrictly(r, v, data)
}

// patchAs changes the object by JSON patch operations that were made by an
// expression. If one of them is a test that fails, none of them counts.
func patchAs(result ref.Val, r *admission.Request, v *view) error {
	patch, err := operations(result)
	if err != nil {
		return err
	}
	before, err := encode(v.object)
	if err != nil {
		return err
	}
	after, err := patch.Apply(before)
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("JSON Patch: %w", err)
	}
	return replaceStrictly(r, v, after)
}

// replaceStrictly is replace for who may not set what does not exist.
func replaceStrictly(r *admission.Request, v *view, data []byte) error {
	if err := checkFields(r, v, data); err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := replace(r, v, data); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

// operations reads the list of operations.
func operations(result ref.Val) (jsonpatch.Patch, error) {
	list, ok := result.(traits.Lister)
	if !ok {
		return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	out := jsonpatch.Patch{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		op, ok := it.Next().(*celmutation.JSONPatchVal)
		if !ok {
			return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
		}
		made := jsonpatch.Operation{"op": raw(op.Op), "path": raw(op.Path)}
		if op.From != "" {
			made["from"] = raw(op.From)
		}
		if op.Val != nil {
			value, err := jsonOf(op.Val)
			if err != nil {
				return nil, err
			}
			made["value"] = value
		}
		out = append(out, made)
	}
	return out, nil
}

func raw(s string) *json.RawMessage {
	data, _ := json.Marshal(s) // a string never fails
	return (*json.RawMessage)(&data)
}

// jsonOf is a value of an expression in JSON.
func jsonOf(v ref.Val) (*json.RawMessage, error) {
	if object, ok := v.(*celobject.ObjectVal); ok {
		if err := object.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	native, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	data, err := json.Marshal(native)
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	return (*json.RawMessage)(&data), nil
}
