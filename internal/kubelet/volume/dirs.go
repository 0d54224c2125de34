package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"
)

// emptyDir makes a folder, or a file system in memory. What is there stays: a
// restarted kubelet must not empty it.
func (m *Manager) emptyDir(pod *v1.Pod, v *v1.Volume) error {
	dir := m.Path(pod, v)
	made := false
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		made = true
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	switch v.EmptyDir.Medium {
	case v1.StorageMediumDefault:
	case v1.StorageMediumMemory:
		if mounted, err := isMounted(dir); err != nil {
			return err
		} else if !mounted {
			made = true
			if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, memoryOptions(pod, v)); err != nil {
				return fmt.Errorf("mount tmpfs: %w", err)
			}
		}
	default:
		return fmt.Errorf("unknown storage medium %q", v.EmptyDir.Medium)
	}
	if !made {
		return nil
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		return err
	}
	return own(dir, fsGroup(pod))
}

// memory makes dir a file system in memory.
func memory(dir string) error {
	if mounted, err := isMounted(dir); err != nil || mounted {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	return nil
}

// memoryOptions bound a memory volume by its own limit, else by the pod's
// memory limit, for what lies in it counts as the pod's memory.
func memoryOptions(pod *v1.Pod, v *v1.Volume) string {
	size := int64(0)
	if l := v.EmptyDir.SizeLimit; l != nil {
		size = l.Value()
	}
	sum := int64(0)
	for i := range pod.Spec.Containers {
		l := pod.Spec.Containers[i].Resources.Limits.Memory().Value()
		if l == 0 {
			sum = 0
			break
		}
		sum += l
	}
	if sum > 0 && (size == 0 || sum < size) {
		size = sum
	}
	if size > 0 {
		return fmt.Sprintf("size=%d", size)
	}
	return ""
}

// own gives a folder to a group: members may write, and what they make belongs
// to the group too.
func own(dir string, group *int64) error {
	if group == nil {
		return nil
	}
	if err := os.Chown(dir, -1, int(*group)); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777|os.ModeSetgid)
}

// hostPath checks, and where the type says so makes, what a host path names.
func hostPath(path string, want *v1.HostPathType) error {
	kind := v1.HostPathUnset
	if want != nil {
		kind = *want
	}
	if kind == v1.HostPathUnset {
		return nil
	}
	info, err := os.Stat(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	is := func(ok bool, what string) error {
		if missing || !ok {
			return fmt.Errorf("hostPath type check failed: %s is not %s", path, what)
		}
		return nil
	}
	mode := fs.FileMode(0)
	if info != nil {
		mode = info.Mode()
	}
	switch kind {
	case v1.HostPathDirectoryOrCreate:
		if missing {
			return os.MkdirAll(path, 0o755)
		}
		return is(mode.IsDir(), "a directory")
	case v1.HostPathFileOrCreate:
		if missing {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
			if err != nil {
				return err
			}
			return f.Close()
		}
		return is(mode.IsRegular(), "a file")
	case v1.HostPathDirectory:
		return is(mode.IsDir(), "a directory")
	case v1.HostPathFile:
		return is(mode.IsRegular(), "a file")
	case v1.HostPathSocket:
		return is(mode&fs.ModeSocket != 0, "a socket file")
	case v1.HostPathCharDev:
		return is(mode&fs.ModeCharDevice != 0, "a character device")
	case v1.HostPathBlockDev:
		return is(mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0, "a block device")
	}
	return fmt.Errorf("hostPath type %q is unknown", kind)
}

func bind(src, dir string) error {
	if err := unix.Mount(src, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", filepath.Base(src), err)
	}
	return nil
}
