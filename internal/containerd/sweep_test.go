package containerd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseMounts(t *testing.T) {
	const table = `23 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 23 0:26 / /sys/fs/cgroup/memory rw shared:9 master:2 - cgroup cgroup rw,memory
31 23 0:27 / /with\040space\134and\011tab rw - tmpfs none rw
not a mount
32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	want := []mountPoint{
		{"/", "ext4"},
		{"/sys/fs/cgroup/memory", "cgroup"},
		{"/with space\\and\ttab", "tmpfs"},
		{"/sys/fs/cgroup/unified", "cgroup2"},
	}
	if diff := cmp.Diff(want, parseMounts(table), cmp.AllowUnexported(mountPoint{})); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestUnmountBelow(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "with space")
	beside := dir + "-beside"
	for _, path := range []string{dir, beside} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("none", path, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	}
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // one over the other
		if err := unix.Mount("none", inner, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := unmountBelow(dir); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	besideIsThere := false
	for _, m := range parseMounts(string(table)) {
		switch m.path {
		case dir, inner:
			t.Errorf("%s is still mounted", m.path)
		case beside:
			besideIsThere = true
		}
	}
	if !besideIsThere {
		t.Errorf("%s was unmounted too", beside)
	}
}
