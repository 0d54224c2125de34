// Package localpath is the loop that makes a volume for each claim of the
// built-in storage, on the node that the scheduler selected, and deletes it
// when its claim is gone. What there is to do on the node itself is done
// there: see internal/localpath.
//
// Use: New(options).Run(ctx). The loop has two sorts of keys: claims by
// namespace and name, volumes by name alone.
//
// Concurrency: as package loop. The name of a volume follows from its claim's
// uid, so that nobody makes it twice.
//
// Failure: a claim that asks for what a folder cannot be waits, with an event.
// When the selected node is gone or keeps no volumes, the selection is taken
// away, and the scheduler selects again. Of a node that is gone nobody waits
// until its folders are removed.
package localpath

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// claimStep is what is next for a claim: at most one of volume and unselect.
type claimStep struct {
	volume   *corev1.PersistentVolume // to create
	unselect bool                     // take the selected node away
	on, why  string                   // is waited for, or why it is done
	failed   bool                     // a person should know why
}

// planClaim decides what is next for a claim that asks our provisioner. class,
// node (the selected one) and made (its volume) are nil when they are not
// there.
func planClaim(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node, made *corev1.PersistentVolume) claimStep {
	selected := claim.Annotations[volumes.SelectedNode]
	switch {
	case claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "":
		return claimStep{}
	case made != nil:
		return claimStep{on: "PersistentVolume " + made.Name, why: "it is to be bound"}
	case class == nil || class.Provisioner != localpath.Provisioner:
		return claimStep{on: "StorageClass " + volumes.ClaimClass(claim), why: "the claim's class is not there, or has another provisioner"}
	}
	if why := unsupported(claim, class); why != "" {
		return claimStep{on: "StorageClass " + class.Name, why: why, failed: true}
	}
	switch {
	case selected == "" && !volumes.Delayed(class):
		return claimStep{on: "StorageClass " + class.Name, failed: true,
			why: "a volume of this class lies on the node of the pod that uses it: its volumeBindingMode must be WaitForFirstConsumer"}
	case selected == "":
		return claimStep{on: "scheduler", why: "it is to select a node"}
	case node == nil:
		return claimStep{unselect: true, failed: true, why: fmt.Sprintf("node %q is not there any more", selected)}
	}
	folder := node.Annotations[localpath.FolderAnnotation]
	if folder == "" {
		return claimStep{unselect: true, failed: true, why: fmt.Sprintf("node %q keeps no volumes: it has no annotation %s", selected, localpath.FolderAnnotation)}
	}
	return claimStep{volume: localpath.Volume(claim, class, node, folder)}
}

// unsupported says what of a claim or a class a folder cannot be.
func unsupported(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) string {
	several := func(m corev1.PersistentVolumeAccessMode) bool {
		return m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod
	}
	spec := &claim.Spec
	switch {
	case slices.ContainsFunc(spec.AccessModes, several):
		return fmt.Sprintf("a volume on one node has the access modes ReadWriteOnce and ReadWriteOncePod, not %v", spec.AccessModes)
	case volumes.Mode(spec.VolumeMode) != corev1.PersistentVolumeFilesystem:
		return "a folder is a volume of the mode Filesystem, not " + string(volumes.Mode(spec.VolumeMode))
	case spec.Selector != nil:
		return "claim Selector is not supported: a volume is made for each claim"
	case spec.DataSource != nil || spec.DataSourceRef != nil:
		return "claim dataSource is not supported: volumes are neither cloned nor restored"
	case spec.VolumeAttributesClassName != nil && *spec.VolumeAttributesClassName != "":
		return "volumeAttributesClassName is not supported: a folder has no attributes"
	case len(class.Parameters) > 0:
		return "the class has parameters; this provisioner knows none"
	case len(class.MountOptions) > 0:
		return "the class has mountOptions; a folder is not mounted"
	}
	return ""
}

// volumeStep is what is next for a volume.
type volumeStep int

const (
	nothing volumeStep = iota
	// deletes the object, and with it, on its node, the folder.
	deletes
	// abandon the folder: its node is gone.
	abandon
)

// planVolume decides what is next for a volume of ours. there tells whether
// its node is.
func planVolume(v *corev1.PersistentVolume, there bool) volumeStep {
	switch {
	case v.DeletionTimestamp != nil && localpath.Made(v) && !there:
		return abandon
	case v.DeletionTimestamp == nil && v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return deletes
	}
	return nothing
}
