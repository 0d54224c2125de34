package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountPoint is one line of mountinfo that we need.
type mountPoint struct {
	path   string
	shared bool
}

// mountPoints lists the mounts of this namespace.
func mountPoints() ([]mountPoint, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []mountPoint
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		m := mountPoint{path: unescape(f[4])}
		for _, o := range f[6:] {
			if o == "-" {
				break
			}
			m.shared = m.shared || strings.HasPrefix(o, "shared:")
		}
		out = append(out, m)
	}
	return out, nil
}

// unescape takes the octal escapes of mountinfo back.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

func isMounted(dir string) (bool, error) {
	points, err := mountPoints()
	if err != nil {
		return false, err
	}
	for _, p := range points {
		if p.path == dir {
			return true, nil
		}
	}
	return false, nil
}

// unmountBelow unmounts everything at and below dir, deepest first, and fails
// when something stays: what lies in a mount must never be deleted with it.
func unmountBelow(dir string) error {
	points, err := mountPoints()
	if err != nil {
		return err
	}
	var below []string
	for _, p := range points {
		if p.path == dir || strings.HasPrefix(p.path, dir+"/") {
			below = append(below, p.path)
		}
	}
	sort.Slice(below, func(i, j int) bool { return len(below[i]) > len(below[j]) })
	var errs []error
	for _, path := range below {
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if err != nil {
				errs = append(errs, fmt.Errorf("unmount %s: %w", path, err))
			}
		} else if err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

// shared are the folders below a kubelet's that are shared mounts: what
// containers, or CSI drivers in them, mount there is seen by the host and by
// others.
var shared = []string{"pods", "plugins"}

// Share makes the folders of pods and plugins shared mounts, so that what a
// container mounts there is seen by the host and by others (mountPropagation).
// It is idempotent.
func Share(root string) error {
	var errs []error
	for _, dir := range shared {
		errs = append(errs, share(filepath.Join(root, dir)))
	}
	return errors.Join(errs...)
}

func share(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	points, err := mountPoints()
	if err != nil {
		return err
	}
	mounted := false
	for _, p := range points {
		if p.path == dir {
			mounted = true
			if p.shared {
				return nil
			}
		}
	}
	if !mounted {
		if err := bind(dir, dir); err != nil {
			return err
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make %s shared: %w", dir, err)
	}
	return nil
}

// Release takes everything that is mounted below a kubelet's folder away.
func Release(root string) error {
	var errs []error
	for _, dir := range shared {
		dir, err := filepath.EvalSymlinks(filepath.Join(root, dir))
		if err == nil {
			err = unmountBelow(dir)
		}
		if !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
