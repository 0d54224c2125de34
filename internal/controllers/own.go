package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Own sorts what an owner may control into what it owns, what it ought to
// adopt and what it ought to release.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#non-template-pod-acquisitions
type Own[T client.Object] struct {
	Owned []T
	// Adopt is one of those that match and belong to nobody; nil: none.
	Adopt *T
	// Release is one of the owned that no longer match; nil: none. It is not
	// in Owned.
	Release *T
}

// Claim looks through candidates, which are those whose controller is owner
// and those that have none. An owner that is being deleted neither adopts nor
// releases.
func Claim[T client.Object](owner client.Object, selector labels.Selector, candidates []T) Own[T] {
	var own Own[T]
	leaving := owner.GetDeletionTimestamp() != nil
	for _, obj := range candidates {
		ref := metav1.GetControllerOfNoCopy(obj)
		matches := selector.Matches(labels.Set(obj.GetLabels()))
		switch {
		case ref != nil && ref.UID != owner.GetUID():
		case ref != nil && (matches || leaving):
			own.Owned = append(own.Owned, obj)
		case ref != nil:
			if own.Release == nil || first(obj, *own.Release) {
				own.Release = &obj
			}
		case matches && !leaving && obj.GetDeletionTimestamp() == nil:
			if own.Adopt == nil || first(obj, *own.Adopt) {
				own.Adopt = &obj
			}
		}
	}
	return own
}

func first(a, b client.Object) bool { return a.GetName() < b.GetName() }

// Candidates are the objects of a view, indexed by client.IndexByController,
// that owner controls or may adopt: of those that nobody controls, all that
// match its selector, and some that do not. It costs as much as owner has, and
// as there are uncontrolled objects with the rarest label that it asks for.
//
// The view moves between two reads of its index. What nobody controls is read
// before and after what owner does, so that an object that passes from one to
// the other is not overlooked: an owner would make another in its place.
func Candidates[T client.Object](v client.View, owner client.Object, selector *metav1.LabelSelector) []T {
	free := client.Uncontrolled(owner.GetNamespace())
	if selector != nil {
		least := v.CountIndex(client.ByController, free)
		for key, value := range selector.MatchLabels {
			with := client.UncontrolledWith(owner.GetNamespace(), key, value)
			if n := v.CountIndex(client.ByController, with); n < least {
				free, least = with, n
			}
		}
	}
	before := client.Indexed[T](v, client.ByController, free)
	owned := client.Indexed[T](v, client.ByController, string(owner.GetUID()))
	return latest(owned, append(client.Indexed[T](v, client.ByController, free), before...))
}

// latest is owned and more without the older states of what is there more than
// once.
func latest[T client.Object](owned, more []T) []T {
	if len(more) == 0 {
		return owned
	}
	newest := make(map[types.UID]T, len(more))
	for _, obj := range more {
		if had, ok := newest[obj.GetUID()]; !ok || client.Later(obj.GetResourceVersion(), had.GetResourceVersion()) {
			newest[obj.GetUID()] = obj
		}
	}
	all := owned[:0]
	for _, obj := range owned {
		if other, ok := newest[obj.GetUID()]; ok {
			if client.Later(other.GetResourceVersion(), obj.GetResourceVersion()) {
				continue
			}
			delete(newest, obj.GetUID())
		}
		all = append(all, obj)
	}
	return slices.AppendSeq(all, maps.Values(newest))
}

// Adopt makes owner the controller of obj, after a look at the live owner: a
// picture may still show one that has been deleted and made anew.
func Adopt(ctx context.Context, c client.Interface, ownerRes client.Resource, owner client.Object, kind schema.GroupVersionKind, res client.Resource, obj client.Object) (client.Object, error) {
	live, err := c.Get(ctx, ownerRes, owner.GetNamespace(), owner.GetName())
	if err != nil {
		return nil, err
	}
	if live.GetUID() != owner.GetUID() || live.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("%s %s/%s is not there any more: it adopts nothing", kind.Kind, owner.GetNamespace(), owner.GetName())
	}
	changed := obj.DeepCopyObject().(client.Object)
	changed.SetOwnerReferences(append(changed.GetOwnerReferences(), *metav1.NewControllerRef(owner, kind)))
	return c.Update(ctx, res, changed)
}

// Release takes owner's reference from obj. An obj that is gone is released.
func Release(ctx context.Context, c client.Interface, owner client.Object, res client.Resource, obj client.Object) (client.Object, error) {
	changed := obj.DeepCopyObject().(client.Object)
	changed.SetOwnerReferences(slices.DeleteFunc(changed.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner.GetUID()
	}))
	got, err := c.Update(ctx, res, changed)
	if apierrors.IsNotFound(err) {
		return obj, nil
	}
	return got, err
}
