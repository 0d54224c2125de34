package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mayLowerOOMScore tells whether this process has CAP_SYS_RESOURCE, without
// which the kernel refuses to lower oom_score_adj.
func mayLowerOOMScore() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	return hasCapability(string(status), unix.CAP_SYS_RESOURCE)
}

func hasCapability(status string, capability int) bool {
	for line := range strings.Lines(status) {
		value, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		return err == nil && set&(1<<capability) != 0
	}
	return false
}

// snapshotterFor returns the best snapshotter for files under root: overlayfs
// where it can be mounted there, else native, which copies. Trying is the only
// reliable test: the kernel may have overlayfs while root lies on a file
// system that cannot be its upper layer, such as another overlay.
func snapshotterFor(root string) string {
	if err := tryOverlay(root); err != nil {
		return "native"
	}
	return "overlayfs"
}

func tryOverlay(root string) (err error) {
	dir, err := os.MkdirTemp(root, ".overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, sub := range []string{"lower1", "lower2", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	at := func(sub string) string { return filepath.Join(dir, sub) }
	merged := at("merged")
	data := "lowerdir=" + at("lower1") + ":" + at("lower2") + ",upperdir=" + at("upper") + ",workdir=" + at("work")
	// Volatile first, where the kernel knows it: unmounting then does not write
	// everything that others have in memory for this file system to disk.
	if err := unix.Mount("overlay", merged, "overlay", 0, data+",volatile"); err != nil {
		if err := unix.Mount("overlay", merged, "overlay", 0, data); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, unix.Unmount(merged, unix.MNT_DETACH)) }()
	return os.WriteFile(filepath.Join(merged, "probe"), nil, 0o600)
}
