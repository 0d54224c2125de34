package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
)

var runtimeClasses = client.Resource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}

// RuntimeClass gives a pod what its runtime class costs, and where pods of that
// class may run.
// https://kubernetes.io/docs/concepts/containers/runtime-class/
type RuntimeClass struct {
	Get GetFunc
}

// Name implements Plugin.
func (*RuntimeClass) Name() string { return "RuntimeClass" }

const otherOverhead = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"

// Admit implements Plugin.
func (p *RuntimeClass) Admit(ctx context.Context, r *Request) error {
	pod, class, err := p.classOf(ctx, r)
	if class == nil || err != nil {
		return err
	}
	if o := class.Overhead; o != nil {
		if pod.Spec.Overhead != nil && !apiequality.Semantic.DeepEqual(pod.Spec.Overhead, o.PodFixed) {
			return r.forbidden(otherOverhead)
		}
		pod.Spec.Overhead = o.PodFixed.DeepCopy()
	}
	if s := class.Scheduling; s != nil {
		selector, err := mergedSelector(pod.Spec.NodeSelector, s.NodeSelector)
		if err != nil {
			return r.forbidden(err.Error())
		}
		pod.Spec.NodeSelector, pod.Spec.Tolerations = selector, mergedTolerations(pod.Spec.Tolerations, s.Tolerations)
	}
	return nil
}

// Validate implements Plugin: whoever changed the pod after Admit left its
// overhead alone.
func (p *RuntimeClass) Validate(ctx context.Context, r *Request) error {
	pod, class, err := p.classOf(ctx, r)
	switch {
	case pod == nil || err != nil:
		return err
	case class != nil && class.Overhead != nil:
		if !apiequality.Semantic.DeepEqual(pod.Spec.Overhead, class.Overhead.PodFixed) {
			return r.forbidden(otherOverhead)
		}
	case pod.Spec.Overhead != nil:
		return r.forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
	}
	return nil
}

// classOf is the new pod of a request and its class; nil where there is none.
func (p *RuntimeClass) classOf(ctx context.Context, r *Request) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	pod := objectAs[*corev1.Pod](r, "", "pods")
	if pod == nil || r.Operation != Create {
		return nil, nil, nil
	}
	if pod.Spec.RuntimeClassName == nil {
		return pod, nil, nil
	}
	name := *pod.Spec.RuntimeClassName
	obj, err := p.Get(ctx, runtimeClasses, "", name)
	switch class, ok := obj.(*nodev1.RuntimeClass); {
	case apierrors.IsNotFound(err):
		return nil, nil, r.forbidden(fmt.Sprintf("pod rejected: RuntimeClass %q not found", name))
	case err != nil:
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("look up runtime class %s: %w", name, err))
	case !ok:
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("%T is no runtime class", obj))
	default:
		return pod, class, nil
	}
}

// mergedSelector is what both ask of a node.
func mergedSelector(pod, class map[string]string) (map[string]string, error) {
	if len(class) == 0 {
		return pod, nil
	}
	out := maps.Clone(class)
	for _, key := range slices.Sorted(maps.Keys(pod)) {
		if value, ok := class[key]; ok && value != pod[key] {
			return nil, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, pod[key])
		}
		out[key] = pod[key]
	}
	return out, nil
}

// mergedTolerations are those of both, without those that another covers.
func mergedTolerations(pod, class []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(pod, class)
	var out []corev1.Toleration
	for i, t := range all {
		covered := slices.ContainsFunc(out, func(o corev1.Toleration) bool { return covers(&o, &t) }) ||
			slices.ContainsFunc(all[i+1:], func(o corev1.Toleration) bool {
				return !apiequality.Semantic.DeepEqual(o, t) && covers(&o, &t)
			})
		if !covered {
			out = append(out, t)
		}
	}
	return out
}

// covers tells whether wide tolerates all that narrow does.
func covers(wide, narrow *corev1.Toleration) bool {
	if apiequality.Semantic.DeepEqual(wide, narrow) {
		return true
	}
	anyKey := wide.Key == "" && wide.Operator == corev1.TolerationOpExists
	if wide.Key != narrow.Key && !anyKey || wide.Effect != "" && wide.Effect != narrow.Effect {
		return false
	}
	if wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil {
		if narrow.TolerationSeconds == nil || *narrow.TolerationSeconds > *wide.TolerationSeconds {
			return false
		}
	}
	equal := func(t *corev1.Toleration) bool { return t.Operator == "" || t.Operator == corev1.TolerationOpEqual }
	switch {
	case wide.Operator == corev1.TolerationOpExists:
		return true
	case equal(wide):
		return equal(narrow) && wide.Value == narrow.Value
	}
	return false
}
