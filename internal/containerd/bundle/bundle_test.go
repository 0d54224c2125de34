package bundle

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-project/setpoint/internal/containerd/bundle/archive"
)

var packedFiles = map[string]string{"bin/a": "program a", "bin/b": "program b", "data": "some data"}

// packedFS is a folder as pack leaves it.
func packedFS(t *testing.T) fstest.MapFS {
	t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/a", "bin/b", "data"} {
		mode := fs.FileMode(0o644)
		if name != "data" {
			mode = 0o755
		}
		if err := w.Add(name, mode, []byte(packedFiles[name])); err != nil {
			t.Fatal(err)
		}
	}
	table, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{
		"README.md":      {Data: []byte("hello")},
		"bundle.tar.zst": {Data: b.Bytes()},
		"contents.json":  {Data: table},
	}
}

func openTest(t *testing.T) *Bundle {
	t.Helper()
	b, err := openFS(packedFS(t))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func all(string) bool { return true }

func TestAbsent(t *testing.T) {
	for _, missing := range []string{"contents.json", "bundle.tar.zst"} {
		fsys := packedFS(t)
		delete(fsys, missing)
		if _, err := openFS(fsys); !errors.Is(err, ErrAbsent) {
			t.Errorf("without %s: %v, want ErrAbsent", missing, err)
		}
	}
	fsys := packedFS(t)
	fsys["contents.json"].Data = []byte("{}")
	if _, err := openFS(fsys); err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("with a broken table of contents: %v, want an error that says so", err)
	}
}

func TestUnpack(t *testing.T) {
	b := openTest(t)
	dir := filepath.Join(t.TempDir(), "deep", "er", "x")
	if err := b.Unpack(dir, all); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, "bin/a", "bin/b", "data")
	info, err := os.Stat(filepath.Join(dir, "bin", "a"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode is %v, %v; want 0755", info.Mode(), err)
	}

	one := filepath.Join(t.TempDir(), "one")
	if err := b.Unpack(one, func(name string) bool { return name == "data" }); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, one, "data")
}

func TestUnpackMendsWhatIsNotWhole(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"a file is gone":   func(dir string) error { return os.Remove(filepath.Join(dir, "data")) },
		"a file is short":  func(dir string) error { return os.Truncate(filepath.Join(dir, "bin", "a"), 3) },
		"not executable":   func(dir string) error { return os.Chmod(filepath.Join(dir, "bin", "a"), 0o644) },
		"a file instead":   func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
		"an empty folder":  func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
		"a folder instead": func(dir string) error { return errors.Join(os.Remove(dir+"/data"), os.Mkdir(dir+"/data", 0o755)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := openTest(t)
			dir := filepath.Join(t.TempDir(), "x")
			if err := b.Unpack(dir, all); err != nil {
				t.Fatal(err)
			}
			if err := harm(dir); err != nil {
				t.Fatal(err)
			}
			if err := b.Unpack(dir, all); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, dir, "bin/a", "bin/b", "data")
			wantNothingBeside(t, dir)
		})
	}
}

func TestUnpackAtOnce(t *testing.T) {
	b := openTest(t)
	dir := filepath.Join(t.TempDir(), "x")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := b.Unpack(dir, all); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	wantFiles(t, dir, "bin/a", "bin/b", "data")
	wantNothingBeside(t, dir)
}

func TestUnpackLeavesNothingOfADamagedBundle(t *testing.T) {
	fsys := packedFS(t)
	data := fsys["bundle.tar.zst"].Data
	for i := range 20 {
		data[len(data)/2+i] ^= 0xff
	}
	b, err := openFS(fsys)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "x")
	if err := b.Unpack(dir, all); err == nil {
		t.Error("a damaged bundle is unpacked without an error")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func wantFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	want := make(map[string]string)
	for _, name := range names {
		want[name] = packedFiles[name]
	}
	got := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		got[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unpacked (-want +got):\n%s", diff)
	}
}

func wantNothingBeside(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("beside the result are leftovers: %v", entries)
	}
}

// The bundle of this very binary.
func TestEmbedded(t *testing.T) {
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range b.Entries {
		names = append(names, e.Name)
	}
	want := []string{
		"bin/containerd", "bin/containerd-shim-runc-v2", "bin/runc",
		"cni/bridge", "cni/host-local", "cni/loopback", "cni/portmap", "kubectl", "setpoint-dns", "images.tar",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("packed (-want +got):\n%s", diff)
	}
}
