package volume

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Drivers mount what CSI drivers have: package csi.
type Drivers interface {
	// Mount makes a volume of a pod, or brings it up to date. renew is when it
	// should be called again at the latest; zero: no need.
	Mount(ctx context.Context, v DriverVolume) (renew time.Time, err error)
	// Path is where a volume of a pod lies; empty: it was never mounted.
	Path(pod types.UID, volume string) string
	// Mounted tells whether a volume of a pod has been made.
	Mounted(pod types.UID, volume string) bool
	// Uses tells whether a pod has a volume of a driver's, or is about to.
	Uses(pod types.UID) bool
	// TearDown takes all of a pod away.
	TearDown(ctx context.Context, pod types.UID) error
}

// DriverVolume is a volume of a CSI driver, as one pod wants it.
type DriverVolume struct {
	Pod    *v1.Pod
	Name   string               // in the pod
	Volume *v1.PersistentVolume // nil: it stands in the pod's spec, as Inline
	Inline *v1.CSIVolumeSource  // nil: it is Volume
	// ReadOnly: the pod only reads it.
	ReadOnly bool
	// Device: it is a device, not a file system.
	Device bool
	// Group is the pod's, whose the volume is to be; nil: it has none. Give gives
	// it what is at path.
	Group *int64
	Give  func(path string) error
}

// UsualRoot is where drivers expect a kubelet's folder: their sockets and what
// they mount for pods lies below it.
const UsualRoot = "/var/lib/kubelet"

// HostPath is what a path of the host means to pods of a node whose kubelet has
// its folder at root: one below UsualRoot lies there. So a driver that was
// written for a kubelet with its usual folder works unmodified, and so do those
// of several clusters on one machine.
func HostPath(root, path string) string {
	if path == UsualRoot {
		return root
	}
	if rest, ok := strings.CutPrefix(path, UsualRoot+"/"); ok {
		return filepath.Join(root, rest)
	}
	return path
}

// driver mounts a volume of a CSI driver; pv is nil for one in the pod's spec.
func (m *Manager) driver(ctx context.Context, pod *v1.Pod, v *v1.Volume, pv *v1.PersistentVolume) (time.Time, error) {
	if m.opts.Drivers == nil {
		return time.Time{}, errors.New("CSI volumes are not supported")
	}
	d := DriverVolume{Pod: pod, Name: v.Name, Volume: pv, Inline: v.CSI, ReadOnly: readOnly(v), Device: pv != nil && isBlock(pv), Group: fsGroup(pod)}
	if d.Group != nil {
		d.Give = func(path string) error { return m.give(pod, path) }
	}
	return m.opts.Drivers.Mount(ctx, d)
}

// give gives a volume to the pod's group, unless it is its already and the pod
// says that its root tells.
func (m *Manager) give(pod *v1.Pod, path string) error {
	group := *fsGroup(pod)
	if policy := pod.Spec.SecurityContext.FSGroupChangePolicy; policy != nil && *policy == v1.FSGroupChangeOnRootMismatch && belongs(path, group) {
		return nil
	}
	return give(path, group)
}

// readOnly tells whether a pod says of a volume that it only reads it.
func readOnly(v *v1.Volume) bool {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ReadOnly
	case v.CSI != nil && v.CSI.ReadOnly != nil:
		return *v.CSI.ReadOnly
	}
	return false
}

func isBlock(pv *v1.PersistentVolume) bool {
	return pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// driverPath is where a volume of a CSI driver lies; empty: it is none, or was
// never mounted.
func (m *Manager) driverPath(pod *v1.Pod, v *v1.Volume) string {
	if m.opts.Drivers == nil || v.CSI == nil && v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
		return ""
	}
	return m.opts.Drivers.Path(pod.UID, v.Name)
}

// tearDownDrivers takes the volumes of CSI drivers away, after the parts of
// them that containers had, which would keep a driver from letting go.
func (m *Manager) tearDownDrivers(ctx context.Context, uid types.UID) error {
	if err := unmountBelow(filepath.Join(m.PodDir(uid), "volume-subpaths")); err != nil || m.opts.Drivers == nil {
		return err
	}
	return m.opts.Drivers.TearDown(ctx, uid)
}
