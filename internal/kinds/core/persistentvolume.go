package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func persistentVolume() *kinds.Kind {
	split := strategy.Of[corev1.PersistentVolume]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "persistentvolumes"}, Kind: "PersistentVolume", Singular: "persistentvolume",
		ShortNames:               []string{"pv"},
		StoragePrefix:            "/registry/persistentvolumes/",
		Versions:                 []kinds.Version{strategy.Version[corev1.PersistentVolume, corev1.PersistentVolumeList](v1, defaultPersistentVolume)},
		AllowUnconditionalUpdate: true,
		PrepareCreate: strategy.PrepareCreate(func(v *corev1.PersistentVolume) {
			v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: new(metav1.Now())}
		}),
		PrepareUpdate:  split.PrepareUpdate,
		Validate:       strategy.Validate(validatePersistentVolume),
		ValidateUpdate: strategy.ValidateUpdate(validatePersistentVolumeUpdate),
		Warnings:       strategy.Warnings(persistentVolumeWarnings),
		Subresources: map[string]*kinds.Subresource{
			"status": {Verbs: strategy.View(), PrepareUpdate: strategy.PrepareUpdate(prepareVolumeStatus)},
		},
		SelectableFields: strategy.Fields(func(v *corev1.PersistentVolume) fields.Set { return fields.Set{"name": v.Name} }),
		FieldNames:       []string{"name"},
		Columns:          volumeColumns(),
	}
}

func defaultPersistentVolume(v *corev1.PersistentVolume) {
	if v.Status.Phase == "" {
		v.Status.Phase = corev1.VolumePending
	}
	spec := &v.Spec
	if spec.PersistentVolumeReclaimPolicy == "" {
		spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	if spec.VolumeMode == nil {
		spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	}
	roundUp(spec.Capacity)
	switch {
	case spec.HostPath != nil:
		if spec.HostPath.Type == nil {
			spec.HostPath.Type = new(corev1.HostPathUnset)
		}
	case spec.RBD != nil:
		defaultText(&spec.RBD.RBDPool, "rbd")
		defaultText(&spec.RBD.RadosUser, "admin")
		defaultText(&spec.RBD.Keyring, "/etc/ceph/keyring")
	case spec.ISCSI != nil:
		defaultText(&spec.ISCSI.ISCSIInterface, "default")
	case spec.AzureDisk != nil:
		defaultAzureDisk(spec.AzureDisk)
	case spec.ScaleIO != nil:
		defaultText(&spec.ScaleIO.StorageMode, "ThinProvisioned")
		defaultText(&spec.ScaleIO.FSType, "xfs")
	}
}

// prepareVolumeStatus notes when a volume's phase changed, unless the writer
// did.
func prepareVolumeStatus(v, old *corev1.PersistentVolume) {
	v.Spec = old.Spec
	if v.Status.Phase != old.Status.Phase && (v.Status.LastPhaseTransitionTime == nil || v.Status.LastPhaseTransitionTime.Equal(old.Status.LastPhaseTransitionTime)) {
		v.Status.LastPhaseTransitionTime = new(metav1.Now())
	}
}

func volumeColumns() []kinds.Column {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	type volume = *corev1.PersistentVolume
	return []kinds.Column{
		strategy.Name(),
		strategy.Column("Capacity", "string", spec["capacity"], func(v volume) any { return capacity(v.Spec.Capacity) }),
		strategy.Column("Access Modes", "string", spec["accessModes"], func(v volume) any { return accessModes(v.Spec.AccessModes) }),
		strategy.Column("Reclaim Policy", "string", spec["persistentVolumeReclaimPolicy"], func(v volume) any { return string(v.Spec.PersistentVolumeReclaimPolicy) }),
		strategy.Column("Status", "string", status["phase"], func(v volume) any {
			if v.DeletionTimestamp != nil {
				return "Terminating"
			}
			return string(v.Status.Phase)
		}),
		strategy.Column("Claim", "string", spec["claimRef"], func(v volume) any {
			if v.Spec.ClaimRef == nil {
				return ""
			}
			return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
		}),
		strategy.Column("StorageClass", "string", spec["storageClassName"], func(v volume) any {
			if class, ok := v.Annotations[betaStorageClass]; ok {
				return class
			}
			return v.Spec.StorageClassName
		}),
		strategy.Column("VolumeAttributesClass", "string", spec["volumeAttributesClassName"], func(v volume) any { return orUnset(v.Spec.VolumeAttributesClassName) }),
		strategy.Column("Reason", "string", status["reason"], func(v volume) any { return v.Status.Reason }),
		strategy.Age(),
		strategy.Wide("VolumeMode", "string", spec["volumeMode"], func(v volume) any { return orUnset((*string)(v.Spec.VolumeMode)) }),
	}
}
