// Package localpath is the built-in storage: a volume is a folder on the node
// of the pod that first used its claim.
//
//	claim, class local-path           scheduler: selected-node N
//	   |
//	   v
//	controllers/localpath             makes the PersistentVolume: a path below
//	   |                              the folder that node N announces
//	   v
//	Keeper on node N                  makes the folder, then puts its finalizer
//	   |                              on the volume: from there on it may be mounted
//	   v
//	kubelet on node N                 binds it into the pod
//
// When the claim goes and the policy is Delete, controllers/localpath deletes
// the PersistentVolume; the Keeper removes the folder and takes its finalizer
// off, and only then the object is gone. So the finalizer says that there is
// something on the node, and a folder that got lost is an error, not an empty
// volume. A volume that is deleted with the policy Retain leaves its folder
// behind, and one that is deleted while a claim has it keeps its folder until
// the claim is gone.
//
// Nodes need no rights to make volumes: a Keeper puts its finalizer on, and
// takes it off, those volumes that are labelled as its node's. It never
// touches anything but direct children of its own folder.
//
// Sizes are not enforced: a volume has as much room as its node's disk.
package localpath

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/volumes"
)

const (
	// Provisioner is the name that classes give.
	Provisioner = "setpoint.dev/local-path"
	// ClassName is that of the class that every cluster starts with.
	ClassName = "local-path"
	// Finalizer of a volume: its folder is there.
	Finalizer = "setpoint.dev/local-path"
	// NodeLabel of a volume names the node that its folder is on.
	NodeLabel = "setpoint.dev/node"
	// FolderAnnotation of a node is the folder that its volumes lie in.
	FolderAnnotation = "setpoint.dev/local-path"
)

// Class is the class that every cluster starts with. It is the default, and
// its claims wait until the node of their pod is known.
func Class() *storagev1.StorageClass {
	wait, grow := storagev1.VolumeBindingWaitForFirstConsumer, true
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: ClassName, Annotations: map[string]string{volumes.IsDefaultClass: "true"}},
		Provisioner: Provisioner, VolumeBindingMode: &wait, AllowVolumeExpansion: &grow,
	}
}

// Ours tells whether a volume is of this package.
func Ours(v *corev1.PersistentVolume) bool {
	return v.Annotations[volumes.ProvisionedBy] == Provisioner && v.Spec.Local != nil
}

// Made tells whether the folder of a volume of ours is there.
func Made(v *corev1.PersistentVolume) bool {
	for _, f := range v.Finalizers {
		if f == Finalizer {
			return true
		}
	}
	return false
}

// InUse tells of a volume that is to go whether a claim still has it, whose pods
// may write to it: a volume may be deleted long before its claim is.
func InUse(v *corev1.PersistentVolume) bool {
	return slices.Contains(v.Finalizers, volumes.VolumeProtection)
}

// VolumeName is the name of the volume of a claim.
func VolumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// Volume is the volume of a claim on a node, which announces folder.
func Volume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node, folder string) *corev1.PersistentVolume {
	name, mode := VolumeName(claim), corev1.PersistentVolumeFilesystem
	host := node.Labels[corev1.LabelHostname]
	if host == "" {
		host = node.Name
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{NodeLabel: node.Name}, Annotations: map[string]string{volumes.ProvisionedBy: Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: volumes.Requested(claim)},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: volumes.ReclaimPolicy(class),
			StorageClassName:              class.Name, VolumeMode: &mode, ClaimRef: volumes.RefTo(claim),
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{
				// People find the data of a claim by its name.
				Path: filepath.Join(folder, fmt.Sprintf("%s_%s_%s", name, claim.Namespace, claim.Name)),
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
	}
}

// place is the path of a volume when it is a direct child of folder that bears
// the volume's name; "" when it is not.
func place(v *corev1.PersistentVolume, folder string) string {
	path := v.Spec.Local.Path
	if filepath.Clean(path) != path || filepath.Dir(path) != filepath.Clean(folder) || !strings.HasPrefix(filepath.Base(path), v.Name+"_") {
		return ""
	}
	return path
}
