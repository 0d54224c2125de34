package podbatch

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Unfinalize takes a finalizer from pods. A pod that is gone has none.
func (w Writer) Unfinalize(ctx context.Context, pods []*corev1.Pod, finalizer string) Result {
	b := &batch{Writer: w}
	Parallel(pods, func(pod *corev1.Pod) {
		if ctx.Err() != nil {
			return
		}
		obj, err := unfinalize(ctx, w.Client, pod, finalizer)
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case err != nil && b.Failure == nil:
			b.Failure = err
		case err == nil && obj != nil:
			b.note(obj)
		case err == nil:
			b.Done++
		}
	})
	return b.Result
}

// unfinalize takes a finalizer from a pod and returns what is left of it, nil
// when it is gone.
func unfinalize(ctx context.Context, c client.Interface, pod *corev1.Pod, finalizer string) (client.Object, error) {
	// A whole update is cheaper than a patch, and fails when the pod has
	// changed meanwhile, which is rare at its end.
	changed := *pod // Update copies what it is given
	changed.Finalizers = slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == finalizer })
	obj, err := c.Update(ctx, client.Pods, &changed)
	if apierrors.IsConflict(err) {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": pod.UID, "$deleteFromPrimitiveList/finalizers": []string{finalizer},
		}}); err != nil {
			return nil, err
		}
		obj, err = c.Patch(ctx, client.Pods, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch)
	}
	if apierrors.IsNotFound(err) || err != nil && gone(ctx, c, pod) {
		return nil, nil
	}
	return obj, err
}

// gone tells whether another pod, or none, has a pod's name by now.
func gone(ctx context.Context, c client.Interface, pod *corev1.Pod) bool {
	there, err := c.Get(ctx, client.Pods, pod.Namespace, pod.Name)
	return apierrors.IsNotFound(err) || err == nil && there.GetUID() != pod.UID
}
