package controllers

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// DeleteSeen deletes an object as it was seen: one that somebody has changed
// since, or another that has its name by now, is a conflict. One that is gone
// is no error.
func DeleteSeen(ctx context.Context, c client.Interface, res client.Resource, obj client.Object) error {
	uid, revision := obj.GetUID(), obj.GetResourceVersion()
	return remove(ctx, c, res, obj, metav1.Preconditions{UID: &uid, ResourceVersion: &revision})
}

// DeleteSame deletes an object whatever it says by now; another that has its
// name is a conflict. One that is gone is no error.
func DeleteSame(ctx context.Context, c client.Interface, res client.Resource, obj client.Object) error {
	uid := obj.GetUID()
	return remove(ctx, c, res, obj, metav1.Preconditions{UID: &uid})
}

func remove(ctx context.Context, c client.Interface, res client.Resource, obj client.Object, only metav1.Preconditions) error {
	err := c.Delete(ctx, res, obj.GetNamespace(), obj.GetName(), metav1.DeleteOptions{Preconditions: &only})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
