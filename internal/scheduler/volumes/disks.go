package volumes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Disk is a volume that a pod names itself and that not every two pods of one
// node can have.
//
// https://kubernetes.io/docs/concepts/storage/volumes/
type Disk struct {
	kind, id string
	monitors []string // of RBD: disks of other monitors are others
	readOnly bool
	never    bool // not even when both only read
}

// ReasonDisk is why a pod cannot be beside another that has its disk.
const ReasonDisk = "node(s) had no available disk"

// DisksOf are the disks that a pod's volumes name.
func DisksOf(pod *corev1.Pod) (disks []Disk) {
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.GCEPersistentDisk != nil:
			disks = append(disks, Disk{kind: "gce", id: v.GCEPersistentDisk.PDName, readOnly: v.GCEPersistentDisk.ReadOnly})
		case v.AWSElasticBlockStore != nil:
			disks = append(disks, Disk{kind: "aws", id: v.AWSElasticBlockStore.VolumeID, never: true})
		case v.ISCSI != nil:
			disks = append(disks, Disk{kind: "iscsi", id: v.ISCSI.IQN, readOnly: v.ISCSI.ReadOnly})
		case v.RBD != nil:
			disks = append(disks, Disk{kind: "rbd", id: v.RBD.RBDPool + "/" + v.RBD.RBDImage, monitors: v.RBD.CephMonitors, readOnly: v.RBD.ReadOnly})
		}
	}
	return disks
}

// Conflicts tells whether two pods of one node cannot have both.
func (d *Disk) Conflicts(with *Disk) bool {
	if d.kind != with.kind || d.id != with.id || d.readOnly && with.readOnly && !d.never {
		return false
	}
	return len(d.monitors) == 0 || slices.ContainsFunc(d.monitors, func(m string) bool { return slices.Contains(with.monitors, m) })
}

// Same tells whether two are the same in all.
func (d *Disk) Same(as *Disk) bool {
	return d.kind == as.kind && d.id == as.id && d.readOnly == as.readOnly && slices.Equal(d.monitors, as.monitors)
}
