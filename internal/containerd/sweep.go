package containerd

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountPoint is one line of the mount table.
type mountPoint struct {
	path   string // where it is mounted
	fsType string
}

// parseMounts reads the format of /proc/self/mountinfo, see proc(5).
func parseMounts(mountinfo string) []mountPoint {
	var mounts []mountPoint
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		types := strings.Fields(after)
		if !ok || len(fields) < 6 || len(types) == 0 {
			continue
		}
		mounts = append(mounts, mountPoint{path: unescape(fields[4]), fsType: types[0]})
	}
	return mounts
}

// unescape undoes the octal escapes of spaces, tabs, newlines and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unmountBelow unmounts everything at or below dir, the newest mount first.
func unmountBelow(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	mounts := parseMounts(string(table))
	var errs []error
	for i := len(mounts) - 1; i >= 0; i-- {
		path := mounts[i].path
		if path != dir && !strings.HasPrefix(path, dir+"/") {
			continue
		}
		// Lazily, as a process that is just ending may still be in it.
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}
