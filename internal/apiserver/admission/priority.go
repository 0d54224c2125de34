package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

var priorityClasses = client.Resource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}

// Priority writes into a pod the number behind the name of its priority class.
// https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/
type Priority struct {
	Get  GetFunc
	List ListFunc
}

// Name implements Plugin.
func (*Priority) Name() string { return "Priority" }

// systemPriorityClasses are the classes that every cluster has. They hold even
// when somebody deletes the objects.
func systemPriorityClasses() []*schedulingv1.PriorityClass {
	preempt := corev1.PreemptLowerPriority
	return []*schedulingv1.PriorityClass{
		{
			ObjectMeta:       metav1.ObjectMeta{Name: "system-cluster-critical"},
			Value:            2000000000,
			Description:      "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
			PreemptionPolicy: &preempt,
		},
		{
			ObjectMeta:       metav1.ObjectMeta{Name: "system-node-critical"},
			Value:            2000001000,
			Description:      "Used for system critical pods that must not be moved from their current node.",
			PreemptionPolicy: &preempt,
		},
	}
}

// Admit implements Plugin.
func (p *Priority) Admit(ctx context.Context, r *Request) error {
	pod := objectAs[*corev1.Pod](r, "", "pods")
	switch {
	case pod == nil:
		return nil
	case r.Operation == Update:
		keepPriority(pod, r.Old)
		return nil
	case r.Operation != Create:
		return nil
	}
	class, err := p.classOf(ctx, r, pod)
	if err != nil {
		return err
	}
	value, policy := int32(0), corev1.PreemptLowerPriority
	if class != nil {
		pod.Spec.PriorityClassName = class.Name
		value = class.Value
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
	}
	if given := pod.Spec.Priority; given != nil && *given != value {
		return r.forbidden(fmt.Sprintf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *given, value))
	}
	if given := pod.Spec.PreemptionPolicy; given != nil && *given != policy {
		return r.forbidden(fmt.Sprintf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *given, policy))
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &value, &policy
	return nil
}

// keepPriority fills in what an update left out; it may not change.
func keepPriority(pod *corev1.Pod, old client.Object) {
	before, ok := old.(*corev1.Pod)
	if !ok {
		return
	}
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = before.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = before.Spec.PreemptionPolicy
	}
}

// classOf is the class of a pod, nil when it names none and there is no default.
func (p *Priority) classOf(ctx context.Context, r *Request, pod *corev1.Pod) (*schedulingv1.PriorityClass, error) {
	name := pod.Spec.PriorityClassName
	if name == "" {
		return p.defaultClass(ctx)
	}
	obj, err := p.Get(ctx, priorityClasses, "", name)
	if err == nil {
		if class, ok := obj.(*schedulingv1.PriorityClass); ok {
			return class, nil
		}
	} else if !apierrors.IsNotFound(err) {
		return nil, apierrors.NewInternalError(fmt.Errorf("look up priority class %s: %w", name, err))
	}
	for _, class := range systemPriorityClasses() {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, r.forbidden(fmt.Sprintf("no PriorityClass with name %s was found", name))
}

// defaultClass is the class that is marked as default; should there be several
// in spite of Validate, the lowest, so that nobody gains by the confusion.
func (p *Priority) defaultClass(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	list, err := p.List(ctx, priorityClasses, "")
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("look up the default priority class: %w", err))
	}
	var found *schedulingv1.PriorityClass
	for _, obj := range list {
		class, ok := obj.(*schedulingv1.PriorityClass)
		if ok && class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	return found, nil
}

// Validate implements Plugin.
func (p *Priority) Validate(ctx context.Context, r *Request) error {
	class := objectAs[*schedulingv1.PriorityClass](r, "scheduling.k8s.io", "priorityclasses")
	if class == nil || !class.GlobalDefault || r.Operation == Delete {
		return nil
	}
	other, err := p.defaultClass(ctx)
	if err != nil {
		return err
	}
	if other != nil && other.Name != class.Name {
		return r.forbidden(fmt.Sprintf("PriorityClass %s is already marked as default. Only one default can exist", other.Name))
	}
	return nil
}
