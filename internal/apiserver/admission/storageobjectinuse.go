package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/setpoint-project/setpoint/internal/volumes"
)

// StorageObjectInUseProtection gives claims, volumes and classes of volume
// attributes, when they are made, the finalizers that keep them as long as they are used.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#storageobjectinuseprotection
type StorageObjectInUseProtection struct{ mutateOnly }

// Name implements Plugin.
func (StorageObjectInUseProtection) Name() string { return "StorageObjectInUseProtection" }

// Admit implements Plugin.
func (StorageObjectInUseProtection) Admit(_ context.Context, r *Request) error {
	if r.Operation != Create {
		return nil
	}
	if claim := objectAs[*corev1.PersistentVolumeClaim](r, "", "persistentvolumeclaims"); claim != nil && !slices.Contains(claim.Finalizers, volumes.ClaimProtection) {
		claim.Finalizers = append(claim.Finalizers, volumes.ClaimProtection)
	}
	if v := objectAs[*corev1.PersistentVolume](r, "", "persistentvolumes"); v != nil && !slices.Contains(v.Finalizers, volumes.VolumeProtection) {
		v.Finalizers = append(v.Finalizers, volumes.VolumeProtection)
	}
	if class := objectAs[*storagev1.VolumeAttributesClass](r, storagev1.GroupName, "volumeattributesclasses"); class != nil && !slices.Contains(class.Finalizers, volumes.AttributesProtection) {
		class.Finalizers = append(class.Finalizers, volumes.AttributesProtection)
	}
	return nil
}
