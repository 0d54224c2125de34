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

// DefaultStorageClass gives a new claim that names no class the default one.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaultstorageclass
type DefaultStorageClass struct {
	List ListFunc
	mutateOnly
}

// Name implements Plugin.
func (*DefaultStorageClass) Name() string { return "DefaultStorageClass" }

// Admit implements Plugin.
func (p *DefaultStorageClass) Admit(ctx context.Context, r *Request) error {
	claim := objectAs[*corev1.PersistentVolumeClaim](r, "", "persistentvolumeclaims")
	if claim == nil || r.Operation != Create || volumes.NamesClass(claim) {
		return nil
	}
	list, err := p.List(ctx, client.StorageClasses, "")
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("look up the default storage class: %w", err))
	}
	classes := make([]*storagev1.StorageClass, 0, len(list))
	for _, obj := range list {
		if class, ok := obj.(*storagev1.StorageClass); ok {
			classes = append(classes, class)
		}
	}
	if class := volumes.DefaultClass(classes); class != nil {
		claim.Spec.StorageClassName = &class.Name
	}
	return nil
}
