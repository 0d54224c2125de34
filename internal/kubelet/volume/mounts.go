package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/mounts"
)

// isMounted tells whether something is mounted on dir.
func isMounted(dir string) (bool, error) {
	_, mounted, err := mounts.At(dir)
	return mounted, err
}

// unmountBelow unmounts everything at and below dir, the newest first, and fails
// when something stays: what lies in a mount must never be deleted with it.
func unmountBelow(dir string) error {
	below, err := mounts.Below(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range below {
		if err := unix.Unmount(p.Path, unix.UMOUNT_NOFOLLOW); errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(p.Path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if err != nil {
				errs = append(errs, fmt.Errorf("unmount %s: %w", p.Path, err))
			}
		} else if err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p.Path, err))
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
	p, mounted, err := mounts.At(dir)
	if err != nil || mounted && p.Shared {
		return err
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

// Release takes everything that is mounted below a kubelet's folder away, lazily:
// what a process still holds goes when that ends.
func Release(root string) error {
	var errs []error
	for _, dir := range append([]string{""}, shared...) { // each may be a link
		below, err := mounts.Below(filepath.Join(root, dir))
		errs = append(errs, err)
		for _, p := range below {
			if err := unix.Unmount(p.Path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
				errs = append(errs, fmt.Errorf("unmount %s: %w", p.Path, err))
			}
		}
	}
	return errors.Join(errs...)
}
