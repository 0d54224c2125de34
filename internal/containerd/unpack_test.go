package containerd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnpackedProgramsRun(t *testing.T) {
	dir := t.TempDir()
	paths, err := Unpack(dir)
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		paths.Containerd: "2.4.2",
		paths.Runc:       "1.5.3",
	} {
		out, err := exec.Command(program, "--version").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s --version: %v, %s; want %s", program, err, out, want)
		}
	}
	if out, err := exec.Command(paths.Shim, "-v").CombinedOutput(); err != nil {
		t.Errorf("%s -v: %v, %s", paths.Shim, err, out)
	}
	var plugins []string
	entries, err := os.ReadDir(paths.CNI)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		plugins = append(plugins, e.Name())
	}
	if diff := cmp.Diff([]string{"bridge", "host-local", "loopback", "portmap"}, plugins); diff != "" {
		t.Errorf("CNI plugins (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(paths.Images); err != nil {
		t.Error(err)
	}

	before, err := os.Stat(paths.Containerd)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Unpack(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(paths, again); diff != "" {
		t.Errorf("a second Unpack (-first +second):\n%s", diff)
	}
	after, err := os.Stat(again.Containerd)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("a second Unpack wrote the programs again")
	}
}

func TestUnpackKubectlAloneAndAtOnce(t *testing.T) {
	dir := t.TempDir()
	paths := make([]string, 4)
	var group sync.WaitGroup
	for i := range paths {
		group.Go(func() {
			path, err := UnpackKubectl(dir)
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	group.Wait()
	for _, path := range paths {
		if path != paths[0] {
			t.Errorf("paths differ: %q", paths)
		}
	}
	out, err := exec.Command(paths[0], "version", "--client", "-o", "yaml").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("gitVersion: v1.37.2")) {
		t.Errorf("kubectl version: %v\n%s", err, out)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 || len(all) != 1 {
		t.Errorf("found %v and %v, want one folder", left, all)
	}
}
