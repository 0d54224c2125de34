package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// SubPath makes a part of a volume ready to be mounted as a container's n-th
// mount and returns where it lies on the host.
//
// What the path names is opened below the volume without following a link out
// of it, and what was opened is bound to a place that the pod cannot reach: a
// container that exchanges a folder for a link meanwhile gains nothing.
func (m *Manager) SubPath(pod *v1.Pod, v *v1.Volume, container string, n int, sub string) (string, error) {
	if err := clean(sub); err != nil {
		return "", err
	}
	root := m.Path(pod, v)
	f, err := pathrs.OpenInRoot(root, sub)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = makeBelow(root, sub)
	}
	if err != nil {
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", v.Name, container, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	target := filepath.Join(m.PodDir(pod.UID), "volume-subpaths", container, strconv.Itoa(n))
	if err := unmountBelow(target); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return "", err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o750)
	} else {
		var t *os.File
		if t, err = os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o640); err == nil {
			err = t.Close()
		}
	}
	if err != nil {
		return "", err
	}
	return target, bind(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), target)
}

// Open opens a file of a volume to read, without following a link out of it.
func (m *Manager) Open(pod *v1.Pod, v *v1.Volume, path string) (*os.File, error) {
	f, err := pathrs.OpenInRoot(m.Path(pod, v), path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return pathrs.Reopen(f, os.O_RDONLY)
}

// makeBelow makes the folders of a path below root, with the mode of root: who
// may write to the volume may write there.
func makeBelow(root, sub string) (*os.File, error) {
	r, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(r.Fd()), &st); err != nil {
		return nil, err
	}
	f, err := pathrs.MkdirAllHandle(r, sub, os.FileMode(st.Mode).Perm())
	if err != nil {
		return nil, err
	}
	// The mask of this process must not narrow it.
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), st.Mode&(0o777|unix.S_ISGID)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
