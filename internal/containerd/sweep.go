package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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

// cgroupRoots returns where cgroup hierarchies are mounted, of both versions:
// a host has one of version 2, several of version 1, or a mix.
func cgroupRoots() ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	var roots []string
	for _, m := range parseMounts(string(table)) {
		if (m.fsType == "cgroup" || m.fsType == "cgroup2") && !seen[m.path] {
			seen[m.path] = true
			roots = append(roots, m.path)
		}
	}
	return roots, nil
}

// removeCgroups kills what is in the cgroup parent or below it, and removes it
// from every hierarchy. Empty: nothing.
func removeCgroups(ctx context.Context, parent string) error {
	if parent == "" {
		return nil
	}
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		if err := removeCgroup(ctx, filepath.Join(root, parent)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func removeCgroup(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return poll(ctx, func() (bool, error) {
		groups, err := cgroupTree(dir)
		if err != nil {
			return false, err
		}
		gone := true
		for i := len(groups) - 1; i >= 0; i-- { // children come after their parents
			killMembers(groups[i])
			// Busy until the last member is gone, a moment after its kill.
			if err := unix.Rmdir(groups[i]); err != nil && !errors.Is(err, unix.ENOENT) {
				gone = false
			}
		}
		return gone, nil
	})
}

func cgroupTree(dir string) ([]string, error) {
	var groups []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir():
			groups = append(groups, path)
		}
		return nil
	})
	return groups, err
}

func killMembers(group string) {
	members, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, field := range strings.Fields(string(members)) {
		// 0 stands for processes of other PID namespaces: not ours to kill.
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
