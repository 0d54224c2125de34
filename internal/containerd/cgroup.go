package containerd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/mounts"
)

// cgroupRoots returns where cgroup hierarchies are mounted, of both versions:
// a host has one of version 2, several of version 1, or a mix.
func cgroupRoots() ([]string, error) {
	table, err := mounts.Table()
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	var roots []string
	for _, m := range table {
		if (m.FSType == "cgroup" || m.FSType == "cgroup2") && !seen[m.Path] {
			seen[m.Path] = true
			roots = append(roots, m.Path)
		}
	}
	return roots, nil
}

// joinCgroups moves a process into the cgroup of the given name in every
// hierarchy that takes it.
func joinCgroups(name string, pid int) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		group := filepath.Join(root, name)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
			continue
		}
		err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil {
			// A fresh cpuset of version 1 has no processors and takes nobody.
			errs = append(errs, err, os.Remove(group))
		}
	}
	return errors.Join(errs...)
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
