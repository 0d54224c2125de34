package strategy

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Replicas is what the scale view shows of an object. Want points to the
// claim's number, which may be nil.
type Replicas struct {
	Want     **int32
	Have     int32
	Selector string // in the form of a label selector's query
}

// Scale is the scale subresource of *T. replicas finds the numbers in an
// object; Want must point into it.
func Scale[P kinds.Object](replicas func(P) Replicas) *kinds.Subresource {
	return &kinds.Subresource{
		GroupVersionKind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
		Verbs:            View(),
		NewView:          func() kinds.Object { return new(autoscalingv1.Scale) },
		Get: func(obj kinds.Object) (kinds.Object, error) {
			r := replicas(obj.(P))
			scale := &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{
					Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
					ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
				},
				Status: autoscalingv1.ScaleStatus{Replicas: r.Have, Selector: r.Selector},
			}
			if *r.Want != nil {
				scale.Spec.Replicas = **r.Want
			}
			scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
			return scale, nil
		},
		Set: func(obj, view kinds.Object) (kinds.Object, error) {
			scale := view.(*autoscalingv1.Scale)
			if n := scale.Spec.Replicas; n < 0 {
				errs := apivalidation.ValidateNonnegativeField(int64(n), field.NewPath("spec", "replicas"))
				return nil, apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), obj.GetName(), errs)
			}
			out := obj.DeepCopyObject().(P)
			*replicas(out).Want = new(scale.Spec.Replicas)
			return out, nil
		},
	}
}

// Selector is the query form of a label selector; "" if there is none or it
// is not valid.
func Selector(s *metav1.LabelSelector) string {
	if s == nil {
		return ""
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return ""
	}
	return sel.String()
}
