package crd

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// finalize empties a deleted definition of its objects, one step a look, and
// then lets it go.
func (r *Registrar) finalize(ctx context.Context, key loop.Key, crd *apiextensionsv1.CustomResourceDefinition) (loop.Outcome, error) {
	had, ok := r.served.Load(crd.Name)
	if !ok {
		return r.release(ctx, key, crd, terminating(apiextensionsv1.ConditionFalse, "NeverEstablished", "resource was never established"))
	}
	h := had.(*held)
	r.cfg.Registry.Close(h.resource)
	want := crd.DeepCopy()
	set(want, terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress"))
	if !reflect.DeepEqual(want.Status, crd.Status) {
		return r.writeStatus(ctx, key, want, "began to delete the objects")
	}
	res := h.resource.WithVersion(storedVersion(crd))
	if h.emptied == nil {
		view := r.cfg.Client.View(res, client.ViewOptions{Metadata: true})
		h.emptied = view.Handle(func(old, now client.Object) {
			if now == nil {
				r.loop.Look(key)
			}
		})
	}
	left, _, err := r.cfg.Client.List(ctx, res, "", metav1.ListOptions{})
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("list the objects: %w", err)
	}
	if len(left) == 0 {
		return r.release(ctx, key, crd, terminating(apiextensionsv1.ConditionFalse, "InstanceDeletionCompleted", "removed all instances"))
	}
	if i := slices.IndexFunc(left, func(obj client.Object) bool { return obj.GetDeletionTimestamp() == nil }); i < 0 {
		first := left[0]
		return loop.WaitFor(fmt.Sprintf("%s %s/%s", crd.Spec.Names.Kind, first.GetNamespace(), first.GetName()),
			"%d objects are held by finalizers", len(left)), nil
	}
	if err := r.cfg.Client.DeleteCollection(ctx, res, "", metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return loop.Outcome{}, fmt.Errorf("delete the objects: %w", err)
	}
	return loop.Acted("deleted %d objects", len(left)), nil
}

// storedVersion is by which the objects can always be reached: it may be that
// no version is served.
func storedVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	return crd.Spec.Versions[i].Name
}

// release writes the last condition together with the end of the finalizer.
func (r *Registrar) release(ctx context.Context, key loop.Key, crd *apiextensionsv1.CustomResourceDefinition, cond apiextensionsv1.CustomResourceDefinitionCondition) (loop.Outcome, error) {
	want := crd.DeepCopy()
	set(want, cond)
	want.Finalizers = slices.DeleteFunc(want.Finalizers, func(f string) bool { return f == apiextensionsv1.CustomResourceCleanupFinalizer })
	return r.writeStatus(ctx, key, want, "let the definition go")
}
