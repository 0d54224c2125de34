package apiserver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

var bindingResource = schema.GroupResource{Resource: "pods/binding"}

// bind gives a pod its node, once and for all (pods/binding).
func (s *Server) bind(c *call, obj kinds.Object) (answer, error) {
	b := obj.(*corev1.Binding)
	if b.Name != "" && b.Name != c.name {
		return answer{}, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", b.Name, c.name))
	}
	if err := c.checkNamespace(b); err != nil {
		return answer{}, err
	}
	if errs := validateBinding(b); len(errs) > 0 {
		return answer{}, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Binding").GroupKind(), c.name, errs)
	}
	admitted, done, err := s.admitPosted(c, b)
	if err != nil {
		return answer{}, err
	}
	b = admitted.(*corev1.Binding)
	ch := write{trusted: true, settled: true, make: func(old kinds.Object) (kinds.Object, error) { return bound(old.(*corev1.Pod), b) }}
	a, err := s.change(c, ch)
	done(err)
	if err != nil {
		return a, err
	}
	return created(), nil
}

// admitPosted asks the plugins about what is created on an object (a binding,
// an eviction). The func it returns must be called with the outcome.
func (s *Server) admitPosted(c *call, obj kinds.Object) (kinds.Object, func(error), error) {
	if len(s.cfg.Admission) == 0 {
		return obj, func(error) {}, nil
	}
	req := &admission.Request{Operation: admission.Create, Object: obj, Name: c.name}
	done, err := s.admit(c, req)
	if err != nil {
		return nil, nil, err
	}
	if err := s.validateAdmission(c, req); err != nil {
		done(err)
		return nil, nil, err
	}
	return req.Object, done, nil
}

// created is the Status of what was done, but left no object.
func created() answer {
	a := success(nil)
	a.code = http.StatusCreated
	a.obj.(*metav1.Status).Code = http.StatusCreated
	return a
}

func validateBinding(b *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("target")
	if b.Target.Kind != "" && b.Target.Kind != "Node" {
		errs = append(errs, field.NotSupported(path.Child("kind"), b.Target.Kind, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	return errs
}

// bound is the pod with the node that the binding names. It shares with the old
// one all that stays as it is.
func bound(old *corev1.Pod, b *corev1.Binding) (kinds.Object, error) {
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(bindingResource, old.Name, fmt.Errorf(format, args...))
	}
	switch {
	case b.UID != "" && b.UID != old.UID:
		return nil, errUIDPrecondition(bindingResource, old.Name, b.UID, old.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != old.ResourceVersion:
		return nil, errRVPrecondition(bindingResource, old.Name, b.ResourceVersion, old.ResourceVersion)
	case old.DeletionTimestamp != nil:
		return nil, conflict("pod %s is being deleted, cannot be assigned to a host", old.Name)
	case old.Spec.NodeName != "":
		return nil, conflict("pod %v is already assigned to node %q", old.Name, old.Spec.NodeName)
	case len(old.Spec.SchedulingGates) > 0:
		return nil, conflict("pod %v has non-empty .spec.schedulingGates", old.Name)
	}
	pod := new(corev1.Pod)
	*pod = *old
	pod.Spec.NodeName = b.Target.Name
	pod.Status.NominatedNodeName = ""
	pod.Annotations = with(pod.Annotations, b.Annotations)
	pod.Labels = with(pod.Labels, b.Labels)
	setScheduled(pod)
	return pod, nil
}

// with returns a map with what more says besides; m itself where that is
// nothing.
func with(m, more map[string]string) map[string]string {
	if len(more) == 0 {
		return m
	}
	out := make(map[string]string, len(m)+len(more))
	maps.Copy(out, m)
	maps.Copy(out, more)
	return out
}

// setScheduled sets the condition PodScheduled. Changes pod, but not the
// conditions that it has.
func setScheduled(pod *corev1.Pod) {
	cond := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now()}
	pod.Status.Conditions = slices.Clone(pod.Status.Conditions)
	for i := range pod.Status.Conditions {
		had := &pod.Status.Conditions[i]
		if had.Type != cond.Type {
			continue
		}
		if had.Status == cond.Status {
			cond.LastTransitionTime = had.LastTransitionTime
		}
		cond.ObservedGeneration = had.ObservedGeneration
		*had = cond
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, cond)
}
