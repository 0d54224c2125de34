package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
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
		PrepareUpdate: split.PrepareUpdate,
		Validate:      strategy.Validate(validatePersistentVolume),
		Subresources:  map[string]*kinds.Subresource{"status": split.Status()},
		Columns:       volumeColumns(),
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

func validatePersistentVolume(v *corev1.PersistentVolume) field.ErrorList {
	var c check.Errors
	spec, path := &v.Spec, field.NewPath("spec")
	validateAccessModes(&c, spec.AccessModes, path, "")
	if len(spec.Capacity) == 0 {
		c.Required(path, "capacity", "")
	} else if size, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		check.Among(&c, path, "capacity", sorted(spec.Capacity)[0], corev1.ResourceStorage)
	} else if size.Sign() <= 0 {
		c.Invalid(path.Child("capacity").Key(string(corev1.ResourceStorage)), "", size.String(), notPositive)
	}
	check.OneOf(&c, path, "persistentVolumeReclaimPolicy", spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	if spec.StorageClassName != "" {
		c.Subdomain(path, "storageClassName", spec.StorageClassName)
	}
	if spec.PersistentVolumeSource == (corev1.PersistentVolumeSource{}) {
		c.Required(path, "", "must specify a volume type")
	}
	if spec.VolumeMode != nil {
		check.Among(&c, path, "volumeMode", *spec.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	if a := spec.NodeAffinity; a != nil {
		if a.Required == nil {
			c.Required(path.Child("nodeAffinity"), "required", "must specify required node constraints")
		} else {
			ValidateNodeSelector(&c, a.Required, path.Child("nodeAffinity", "required"))
		}
	} else if spec.Local != nil {
		c.Required(path, "nodeAffinity", "Local volume requires node affinity")
	}
	return c.List
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
