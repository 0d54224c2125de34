package containerd

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/mounts"
)

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
	table, err := mounts.Table()
	if err != nil {
		t.Fatal(err)
	}
	besideIsThere := false
	for _, m := range table {
		switch m.Path {
		case dir, inner:
			t.Errorf("%s is still mounted", m.Path)
		case beside:
			besideIsThere = true
		}
	}
	if !besideIsThere {
		t.Errorf("%s was unmounted too", beside)
	}
}
