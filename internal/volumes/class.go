package volumes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// ClaimClass is the class that a claim asks for; "" is none.
func ClaimClass(c *corev1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}

// NamesClass tells whether a claim says anything of a class. One that does not
// gets the default; one that says "" wants none.
func NamesClass(c *corev1.PersistentVolumeClaim) bool {
	_, ok := c.Annotations[corev1.BetaStorageClassAnnotation]
	return ok || c.Spec.StorageClassName != nil
}

// VolumeClass is the class that a volume is of; "" is none.
func VolumeClass(v *corev1.PersistentVolume) string {
	if class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return v.Spec.StorageClassName
}

// Default tells whether a class is marked as the default.
func Default(class *storagev1.StorageClass) bool {
	return class.Annotations[IsDefaultClass] == "true" || class.Annotations[BetaIsDefaultClass] == "true"
}

// DefaultClass is the class that claims get which name none, nil when none is
// marked. Of several it is the newest, of those the first by name.
//
// https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass
func DefaultClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for _, c := range classes {
		switch {
		case !Default(c):
		case found == nil, found.CreationTimestamp.Before(&c.CreationTimestamp):
			found = c
		case found.CreationTimestamp.Equal(&c.CreationTimestamp) && strings.Compare(c.Name, found.Name) < 0:
			found = c
		}
	}
	return found
}

// Delayed tells whether claims of a class, which may be nil, are bound only
// when a pod is to use them.
func Delayed(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// ReclaimPolicy of volumes that are made for a class.
func ReclaimPolicy(class *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	if class.ReclaimPolicy != nil {
		return *class.ReclaimPolicy
	}
	return corev1.PersistentVolumeReclaimDelete
}
