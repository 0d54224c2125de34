package volumes

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// ControllerManaged, "true" on a Node: its kubelet leaves it to a loop to have
// volumes attached there.
const ControllerManaged = "volumes.kubernetes.io/controller-managed-attach-detach"

// AttachmentName is the name of the VolumeAttachment that stands for a volume of
// a CSI driver on a node. Attachers and kubelets of others know it by that name.
func AttachmentName(driver, handle, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

const csiPrefix = "kubernetes.io/csi/"

// UniqueName is what a node's status calls a volume of a CSI driver, in
// volumesInUse and volumesAttached.
func UniqueName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(csiPrefix + driver + "^" + handle)
}

// OfCSI reads a UniqueName; ok tells whether it is one.
func OfCSI(name corev1.UniqueVolumeName) (driver, handle string, ok bool) {
	rest, ok := strings.CutPrefix(string(name), csiPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "^")
}

// Attached tells whether a node's status says that a volume is attached.
func Attached(node *corev1.Node, name corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == name })
}

// AttachRequired tells whether volumes of a driver have to be attached to a
// node. A driver that says nothing of itself (nil) asks for it.
func AttachRequired(d *storagev1.CSIDriver) bool {
	return d == nil || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

// Exclusive tells whether a volume may be attached to one node at a time only.
func Exclusive(v *corev1.PersistentVolume) bool {
	return len(v.Spec.AccessModes) > 0 && !slices.ContainsFunc(v.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}
