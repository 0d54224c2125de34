package controllers

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Outdated asks the server whether an object, as a view shows it, has changed
// since or is gone. It is for a step that would be taken twice by who sees what
// was: a copy of the loop may have taken it, noted that in the object's status
// and cleared up behind it.
func Outdated(ctx context.Context, c client.Interface, res client.Resource, obj client.Object) (bool, error) {
	now, err := c.Get(ctx, res, obj.GetNamespace(), obj.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return now.GetResourceVersion() != obj.GetResourceVersion(), nil
}
