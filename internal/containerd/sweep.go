package containerd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/mounts"
)

// unmountBelow unmounts everything at or below dir, the newest mount first.
func unmountBelow(dir string) error {
	below, err := mounts.Below(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range below {
		// Lazily, as a process that is just ending may still be in it.
		err := unix.Unmount(p.Path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p.Path, err))
		}
	}
	return errors.Join(errs...)
}
