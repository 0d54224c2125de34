package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"
)

// claim binds the folder of a claim's volume, of those types that are a folder
// of this node, or has a driver mount it. One that is there stays, whatever has
// become of the claim.
func (m *Manager) claim(ctx context.Context, pod *v1.Pod, v *v1.Volume) (renew time.Time, err error) {
	if m.opts.Claim == nil {
		return renew, errors.New("persistent volume claims are not supported")
	}
	dir := m.Path(pod, v)
	mounted := m.opts.Drivers != nil && m.opts.Drivers.Mounted(pod.UID, v.Name)
	if !mounted {
		if bound, err := isMounted(dir); err != nil || bound && m.driverPath(pod, v) == "" {
			return renew, err
		}
	}
	pv, err := m.opts.Claim(ctx, pod, v)
	if err != nil {
		if mounted {
			return time.Now().Round(0).Add(time.Minute), nil
		}
		return renew, err
	}
	if err := refuseBlock(pod, v, pv); err != nil {
		return renew, err
	}
	if pv.Spec.CSI != nil {
		return m.driver(ctx, pod, v, pv)
	}
	src, err := m.source(pod, v, pv)
	if err != nil {
		return renew, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return renew, err
	}
	return renew, bind(src, dir)
}

// refuseBlock refuses what is a device and not to be one, or the other way
// round, and a device that is not a CSI driver's.
func refuseBlock(pod *v1.Pod, v *v1.Volume, pv *v1.PersistentVolume) error {
	block, device := isBlock(pv), asDevice(pod, v.Name)
	switch {
	case block && !device:
		return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts", v.Name)
	case !block && device:
		return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", v.Name)
	case block && pv.Spec.CSI == nil:
		return fmt.Errorf("volume %s has volumeMode Block, which this kubelet supports of CSI drivers only", v.Name)
	}
	return nil
}

// asDevice tells whether a container wants a volume as a device.
func asDevice(pod *v1.Pod, volume string) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, d := range list[i].VolumeDevices {
				if d.Name == volume {
					return true
				}
			}
		}
	}
	return false
}

// source is the folder of a volume, as the pod may use it.
func (m *Manager) source(pod *v1.Pod, v *v1.Volume, pv *v1.PersistentVolume) (string, error) {
	switch {
	case pv.Spec.HostPath != nil:
		path := HostPath(m.opts.Root, pv.Spec.HostPath.Path)
		if err := hostPath(path, pv.Spec.HostPath.Type); err != nil {
			return "", err
		}
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.MkdirAll(path, 0o755)
		}
		return path, err
	case pv.Spec.Local == nil:
		return "", fmt.Errorf("persistent volume %q is of a type that is not supported: only CSI, hostPath and local are", pv.Name)
	}
	path := pv.Spec.Local.Path
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("path %q does not exist", path)
	}
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("path %q is not a directory: devices are not supported", path)
	}
	// A host path is the host's: nobody changes whose it is. A volume that is
	// only read stays as it is as well.
	if fsGroup(pod) != nil && !readOnly(v) {
		return path, m.give(pod, path)
	}
	return path, nil
}

const (
	groupWrites = 0o660
	groupEnters = 0o110
)

// belongs tells whether the root of a volume is a group's already.
func belongs(path string, group int64) bool {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return false
	}
	const want = groupWrites | groupEnters | unix.S_ISGID
	return int64(st.Gid) == group && st.Mode&want == want
}

// give gives a folder and all that is in it to a group: members may write, and
// what they make belongs to the group too. The folder itself comes last, so
// that a change that was cut short is seen by belongs. Whoever exchanges a file
// for a link meanwhile leads nobody out of the folder.
//
// https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods
func give(path string, group int64) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	const self = "."
	err = fs.WalkDir(root.FS(), self, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == self {
			return err
		}
		return giveOne(root, name, group)
	})
	if err != nil {
		return err
	}
	return giveOne(root, self, group)
}

func giveOne(root *os.Root, name string, group int64) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if err := root.Lchown(name, -1, int(group)); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	// A change of the group takes setuid and setgid away: they are put back.
	mode := info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) | groupWrites
	if info.IsDir() {
		mode |= groupEnters | fs.ModeSetgid
	}
	return root.Chmod(name, mode)
}
