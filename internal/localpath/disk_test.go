package localpath

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemoveMounted: a folder in which something is mounted is not removed,
// whatever its path has in it; what lies in the mount is not the volume's.
func TestRemoveMounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	for _, name := range []string{"plain", "with space", "link"} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			folder := filepath.Join(base, name)
			if name == "link" {
				if err := os.Symlink(t.TempDir(), folder); err != nil {
					t.Fatal(err)
				}
			}
			volume := filepath.Join(folder, "volume")
			inner := filepath.Join(volume, "inner")
			if err := os.MkdirAll(inner, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("none", inner, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(inner, unix.MNT_DETACH) })
			precious := filepath.Join(inner, "precious")
			if err := os.WriteFile(precious, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := (Host{}).Remove(volume); err == nil {
				t.Error("it was removed")
			}
			if _, err := os.Stat(precious); err != nil {
				t.Error(err)
			}
			if err := unix.Unmount(inner, 0); err != nil {
				t.Fatal(err)
			}
			if err := (Host{}).Remove(volume); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(volume); !os.IsNotExist(err) {
				t.Errorf("it is there: %v", err)
			}
		})
	}
}
