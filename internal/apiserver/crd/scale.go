package crd

import (
	"fmt"
	"math"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// scale is the scale subresource: where in an object its parts lie.
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#scale-subresource
type scale struct {
	spec, status, selector []string // selector is nil when there is none
	specPath, statusPath   string   // as the definition has them
	selectorPath           string
}

func newScale(in *apiextensionsv1.CustomResourceSubresourceScale) *scale {
	if in == nil {
		return nil
	}
	out := &scale{
		spec: fieldsOf(in.SpecReplicasPath), specPath: in.SpecReplicasPath,
		status: fieldsOf(in.StatusReplicasPath), statusPath: in.StatusReplicasPath,
	}
	if in.LabelSelectorPath != nil && *in.LabelSelectorPath != "" {
		out.selector, out.selectorPath = fieldsOf(*in.LabelSelectorPath), *in.LabelSelectorPath
	}
	return out
}

// fieldsOf takes a simple JSON path (".spec.replicas") apart.
func fieldsOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// subresource is the scale of objects that are asked for in version v.
func (s *scale) subresource(v *kinds.Version) *kinds.Subresource {
	toHub, fromHub := v.ToHub, v.FromHub
	if toHub == nil { // v is the hub
		same := func(obj kinds.Object) (kinds.Object, error) { return obj, nil }
		toHub, fromHub = same, same
	}
	view := func(obj kinds.Object) (*autoscalingv1.Scale, bool, error) {
		obj, err := fromHub(obj)
		if err != nil {
			return nil, false, err
		}
		return s.view(obj.(*Object))
	}
	return &kinds.Subresource{
		GroupVersionKind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
		NewView:          func() kinds.Object { return &autoscalingv1.Scale{} },
		Replicas:         s.spec,
		Get: func(obj kinds.Object) (kinds.Object, error) {
			out, found, err := view(obj)
			if err == nil && !found {
				err = apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", s.specPath))
			}
			return out, err
		},
		Before: func(obj kinds.Object) (kinds.Object, error) {
			out, found, err := view(obj)
			if err == nil && !found {
				out.Spec.Replicas = unset
			}
			return out, err
		},
		Set: func(obj, view kinds.Object) (kinds.Object, error) {
			obj, err := fromHub(obj)
			if err != nil {
				return nil, err
			}
			if obj, err = s.set(obj.(*Object), view.(*autoscalingv1.Scale)); err != nil {
				return nil, err
			}
			return toHub(obj)
		},
	}
}

// unset is the number of replicas that a change is shown where there is none,
// as upstream does: what leaves it so did not say how many there shall be.
const unset = math.MinInt32

// view is the Scale of an object, and whether the object says how many
// replicas there shall be.
func (s *scale) view(o *Object) (*autoscalingv1.Scale, bool, error) {
	replicas, found, err := s.replicas(o, s.spec)
	if err != nil {
		return nil, false, err
	}
	out := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp,
		},
		Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	if out.Status.Replicas, _, err = s.replicas(o, s.status); err != nil {
		return nil, false, err
	}
	if s.selector != nil {
		if out.Status.Selector, _, err = unstructured.NestedString(o.Fields, s.selector...); err != nil {
			return nil, false, err
		}
	}
	return out, found, nil
}

func (s *scale) replicas(o *Object, path []string) (int32, bool, error) {
	n, found, err := unstructured.NestedInt64(o.Fields, path...)
	return int32(n), found, err
}

// set writes a Scale into a copy of an object. Whether the number will do is
// for the object's own validation to say.
func (s *scale) set(o *Object, view *autoscalingv1.Scale) (kinds.Object, error) {
	if view.Spec.Replicas == unset {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", s.specPath))
	}
	out := o.DeepCopyObject().(*Object)
	if err := unstructured.SetNestedField(out.Fields, int64(view.Spec.Replicas), s.spec...); err != nil {
		return nil, err
	}
	return out, nil
}

// check sees that the parts of a Scale are what they have to be. claim leaves
// out what only status holds when it is false.
func (s *scale) check(o *Object, claim bool) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	number := func(path string, names []string) {
		n, _, err := unstructured.NestedInt64(o.Fields, names...)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(field.NewPath(path), n, err.Error()))
		case n < 0:
			errs = append(errs, field.Invalid(field.NewPath(path), n, "should be a non-negative integer"))
		case n > math.MaxInt32:
			errs = append(errs, field.Invalid(field.NewPath(path), n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)))
		}
	}
	if claim {
		number(s.specPath, s.spec)
	}
	number(s.statusPath, s.status)
	if s.selector != nil {
		if text, _, err := unstructured.NestedString(o.Fields, s.selector...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(s.selectorPath), text, err.Error()))
		}
	}
	return errs
}
