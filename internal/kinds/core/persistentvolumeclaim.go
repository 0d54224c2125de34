package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func persistentVolumeClaim() *kinds.Kind {
	split := strategy.Of[corev1.PersistentVolumeClaim]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "persistentvolumeclaims"}, Kind: "PersistentVolumeClaim", Singular: "persistentvolumeclaim",
		ShortNames: []string{"pvc"}, Namespaced: true,
		StoragePrefix:            "/registry/persistentvolumeclaims/",
		Versions:                 []kinds.Version{strategy.Version[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](v1, DefaultPersistentVolumeClaim)},
		AllowUnconditionalUpdate: true,
		PrepareCreate: strategy.PrepareCreate(func(c *corev1.PersistentVolumeClaim) {
			c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
			normalizeSources(&c.Spec, nil)
		}),
		PrepareUpdate: func(ctx context.Context, obj, old kinds.Object) {
			split.PrepareUpdate(ctx, obj, old)
			// Clients of old send the older field only.
			normalizeSources(&obj.(*corev1.PersistentVolumeClaim).Spec, &old.(*corev1.PersistentVolumeClaim).Spec)
		},
		Validate:       strategy.Validate(validateClaim),
		ValidateUpdate: strategy.ValidateUpdate(validateClaimUpdate),
		Warnings:       strategy.Warnings(claimWarnings),
		Subresources: map[string]*kinds.Subresource{
			"status": {Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateClaimStatus)},
		},
		SelectableFields: strategy.Fields(func(c *corev1.PersistentVolumeClaim) fields.Set { return fields.Set{"name": c.Name} }),
		FieldNames:       []string{"name"},
		Columns:          claimColumns(),
	}
}

// DefaultPersistentVolumeClaim fills in a claim, also one that is a template.
func DefaultPersistentVolumeClaim(c *corev1.PersistentVolumeClaim) {
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	defaultClaimSpec(&c.Spec)
	roundUp(c.Status.Capacity)
	roundUp(c.Status.AllocatedResources)
}

// betaStorageClass named the class of a claim before the field did.
const betaStorageClass = corev1.BetaStorageClassAnnotation

func claimColumns() []kinds.Column {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	type claim = *corev1.PersistentVolumeClaim
	return []kinds.Column{
		strategy.Name(),
		strategy.Column("Status", "string", status["phase"], func(c claim) any {
			if c.DeletionTimestamp != nil {
				return "Terminating"
			}
			return string(c.Status.Phase)
		}),
		strategy.Column("Volume", "string", spec["volumeName"], func(c claim) any { return c.Spec.VolumeName }),
		strategy.Column("Capacity", "string", status["capacity"], func(c claim) any {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return capacity(c.Status.Capacity)
		}),
		strategy.Column("Access Modes", "string", status["accessModes"], func(c claim) any {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return accessModes(c.Status.AccessModes)
		}),
		strategy.Column("StorageClass", "string", spec["storageClassName"], func(c claim) any {
			if class, ok := c.Annotations[betaStorageClass]; ok {
				return class
			}
			return group(c.Spec.StorageClassName)
		}),
		strategy.Column("VolumeAttributesClass", "string", spec["volumeAttributesClassName"], func(c claim) any { return orUnset(c.Spec.VolumeAttributesClassName) }),
		strategy.Age(),
		strategy.Wide("VolumeMode", "string", spec["volumeMode"], func(c claim) any { return orUnset((*string)(c.Spec.VolumeMode)) }),
	}
}

func orUnset(s *string) string {
	if s == nil {
		return "<unset>"
	}
	return *s
}

func capacity(list corev1.ResourceList) string {
	q := list[corev1.ResourceStorage]
	return q.String()
}

// accessModes are shown by their initials.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range [...]struct {
		mode corev1.PersistentVolumeAccessMode
		text string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			out = append(out, m.text)
		}
	}
	return strings.Join(out, ",")
}
