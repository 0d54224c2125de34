package mounts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParse(t *testing.T) {
	const table = `23 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 23 0:26 / /sys/fs/cgroup/memory rw shared:9 master:2 - cgroup cgroup rw,memory
31 23 0:27 / /with\040space\134and\011tab rw - tmpfs none rw
not a mount
32 23 0:28 / /sys/fs/cgroup/unified rw master:3 - cgroup2 cgroup2 rw
33 23 0:29 / /data/pvc-\303\244 rw - tmpfs shared:1 rw
`
	want := []Point{
		{"/", "ext4", false},
		{"/sys/fs/cgroup/memory", "cgroup", true},
		{"/with space\\and\ttab", "tmpfs", false},
		{"/sys/fs/cgroup/unified", "cgroup2", false},
		{"/data/pvc-ä", "tmpfs", false},
	}
	if diff := cmp.Diff(want, parse(table)); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestRealPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "there", "in"), 0o755))
	must(os.Symlink("there", filepath.Join(dir, "relative")))
	must(os.Symlink(filepath.Join(dir, "relative", "in"), filepath.Join(dir, "twice")))
	must(os.Symlink("circle", filepath.Join(dir, "circle")))
	for got, want := range map[string]string{
		"there":              "there",
		"relative":           "there",
		"relative/in":        "there/in",
		"relative/in/absent": "there/in/absent",
		"twice":              "there/in",
		"twice/../absent":    "absent", // as the shell has it
		"absent/further":     "absent/further",
		"circle":             "circle",
	} {
		is, err := realPath(dir + "/" + got)
		if err != nil || is != filepath.Join(dir, want) {
			t.Errorf("%s: %s, %v, want %s", got, is, err, want)
		}
	}
}

// TestPlaces: mounts are found whatever the path of a folder has in it, in the
// order in which they can be unmounted, and those beside it are not.
func TestPlaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	for what, name := range map[string]string{"plain": "d", "space": "a b", "tab, newline": "a\tb\nc", "backslash": `a\040b`, "others": "ä#'\"*"} {
		for _, link := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), name)
				mount := func(path string) {
					t.Helper()
					if err := os.MkdirAll(path, 0o755); err != nil {
						t.Fatal(err)
					}
					if err := unix.Mount("none", path, "tmpfs", 0, ""); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
				}
				inner := filepath.Join(dir, "inner")
				mount(dir)
				mount(dir + "-beside")
				mount(inner)
				mount(inner) // one over the other
				asked := dir
				if link {
					asked = filepath.Join(t.TempDir(), "link")
					if err := os.Symlink(dir, asked); err != nil {
						t.Fatal(err)
					}
				}
				below, err := Below(asked)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, p := range below {
					got = append(got, p.Path)
				}
				if diff := cmp.Diff([]string{inner, inner, dir}, got); diff != "" {
					t.Errorf("below (-want +got):\n%s", diff)
				}
				for path, want := range map[string]bool{asked: true, filepath.Join(asked, "inner"): true, filepath.Join(asked, "absent"): false, asked + "-absent": false} {
					if p, ok, err := At(path); err != nil || ok != want || ok && p.FSType != "tmpfs" {
						t.Errorf("%q: %v, %v, %v, want %v", path, p, ok, err, want)
					}
				}
			})
		}
	}
}
