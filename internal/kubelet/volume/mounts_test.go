package volume

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/mounts"
)

// TestRelease: nothing stays mounted below a kubelet's folder, whatever its path
// has in it and whichever of its folders is a link, though a process is in a
// mount; and what the mounts show is still there.
func TestRelease(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	for _, test := range []struct{ name, dir, link, to string }{
		{name: "plain", dir: "kubelet"},
		{name: "space", dir: "a b/kubelet"},
		{name: "the data folder is a link", dir: "data/kubelet", link: "data", to: "elsewhere"},
		{name: "so is that of pods", dir: "kubelet", link: "kubelet/pods", to: "large disk"},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := t.TempDir()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			if test.link != "" {
				must(os.MkdirAll(filepath.Join(base, test.to), 0o755))
				must(os.MkdirAll(filepath.Dir(filepath.Join(base, test.link)), 0o755))
				must(os.Symlink(filepath.Join(base, test.to), filepath.Join(base, test.link)))
			}
			root, data := filepath.Join(base, test.dir), filepath.Join(base, "volume")
			t.Cleanup(func() {
				below, _ := mounts.Below(base)
				for _, p := range below {
					_ = unix.Unmount(p.Path, unix.MNT_DETACH)
				}
			})
			must(os.Mkdir(data, 0o755))
			must(os.WriteFile(filepath.Join(data, "precious"), nil, 0o600))
			for range 2 {
				must(Share(root)) // a second time changes nothing
			}
			if below, err := mounts.Below(base); err != nil || len(below) != len(shared) || !below[0].Shared {
				t.Errorf("shared: %v, %v", below, err)
			}
			memory, bound := filepath.Join(root, "pods", "uid", "memory"), filepath.Join(root, "pods", "uid", "bound")
			must(os.MkdirAll(memory, 0o755))
			must(os.MkdirAll(bound, 0o755))
			must(unix.Mount("none", memory, "tmpfs", 0, ""))
			must(bind(data, bound))
			held, err := os.Create(filepath.Join(memory, "held"))
			must(err)
			defer held.Close()
			must(Release(root))
			if left, err := mounts.Below(base); err != nil || len(left) > 0 {
				t.Errorf("still mounted: %v, %v", left, err)
			}
			must(os.RemoveAll(root))
			if _, err := os.Stat(filepath.Join(data, "precious")); err != nil {
				t.Error(err)
			}
		})
	}
}
