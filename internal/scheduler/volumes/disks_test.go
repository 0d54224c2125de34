package volumes_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/scheduler/volumes"
)

// disk is the one disk of a pod with a volume.
func disk(t *testing.T, source corev1.VolumeSource) volumes.Disk {
	t.Helper()
	disks := volumes.DisksOf(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: source}}}})
	if len(disks) != 1 {
		t.Fatalf("%d disks", len(disks))
	}
	return disks[0]
}

// Two pods of a node cannot have one disk, but those that can be read by many
// when both only read.
func TestDisksConflict(t *testing.T) {
	gce := func(name string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
	}
	aws := func(id string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: readOnly}}
	}
	iscsi := func(iqn string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: iqn, ReadOnly: readOnly}}
	}
	rbd := func(image string, readOnly bool, monitors ...string) corev1.VolumeSource {
		return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{RBDPool: "p", RBDImage: image, CephMonitors: monitors, ReadOnly: readOnly}}
	}
	for name, tc := range map[string]struct {
		a, b corev1.VolumeSource
		want bool
	}{
		"gce, both write":        {gce("x", false), gce("x", false), true},
		"gce, one writes":        {gce("x", true), gce("x", false), true},
		"gce, both read":         {gce("x", true), gce("x", true), false},
		"gce, two disks":         {gce("x", false), gce("y", false), false},
		"aws, both read":         {aws("x", true), aws("x", true), true},
		"aws and gce":            {aws("x", false), gce("x", false), false},
		"iscsi, both read":       {iscsi("x", true), iscsi("x", true), false},
		"iscsi, one writes":      {iscsi("x", false), iscsi("x", true), true},
		"rbd, a monitor shared":  {rbd("x", false, "m1", "m2"), rbd("x", false, "m2"), true},
		"rbd, no monitor shared": {rbd("x", false, "m1"), rbd("x", false, "m2"), false},
		"rbd, both read":         {rbd("x", true, "m1"), rbd("x", true, "m1"), false},
	} {
		a, b := disk(t, tc.a), disk(t, tc.b)
		if got, back := a.Conflicts(&b), b.Conflicts(&a); got != tc.want || back != tc.want {
			t.Errorf("%s: %t and %t, want %t", name, got, back, tc.want)
		}
	}
}
