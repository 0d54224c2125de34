package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// PersistentVolumeClaimResize lets claims ask for more room only when they are
// bound, and their class allows it.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#persistentvolumeclaimresize
type PersistentVolumeClaimResize struct {
	Get GetFunc
	mutateNothing
}

// Name implements Plugin.
func (*PersistentVolumeClaimResize) Name() string { return "PersistentVolumeClaimResize" }

// Validate implements Plugin.
func (p *PersistentVolumeClaimResize) Validate(ctx context.Context, r *Request) error {
	claim := objectAs[*corev1.PersistentVolumeClaim](r, "", "persistentvolumeclaims")
	old, _ := r.Old.(*corev1.PersistentVolumeClaim)
	if claim == nil || old == nil || r.Operation != Update {
		return nil
	}
	want, had := volumes.Requested(claim), volumes.Requested(old)
	if want.Cmp(had) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		return r.forbidden("Only bound persistent volume claims can be expanded")
	}
	grows, err := p.grows(ctx, claim, old)
	if err != nil {
		return err
	}
	if !grows {
		return r.forbidden("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	}
	return nil
}

// grows tells whether the class of a claim allows it to grow.
func (p *PersistentVolumeClaimResize) grows(ctx context.Context, claim, old *corev1.PersistentVolumeClaim) (bool, error) {
	name := volumes.ClaimClass(claim)
	if name == "" || name != volumes.ClaimClass(old) {
		return false, nil
	}
	obj, err := p.Get(ctx, client.StorageClasses, "", name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, apierrors.NewInternalError(fmt.Errorf("look up storage class %s: %w", name, err))
	}
	class, ok := obj.(*storagev1.StorageClass)
	return ok && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion, nil
}
