package envtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFill: the launchers hand on every argument as it is, also where the
// program's path is unusual, and a folder can be filled again.
func TestFill(t *testing.T) {
	where := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(where, 0o755); err != nil {
		t.Fatal(err)
	}
	program, kubectl := filepath.Join(where, "setpoint"), filepath.Join(where, "kubectl-1")
	for path, script := range map[string]string{program: "#!/bin/sh\nfor a in \"$@\"; do echo \"<$a>\"; done\n", kubectl: "#!/bin/sh\necho kubectl\n"} {
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "new", "assets")
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(filepath.Join(dir, name), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	for _, test := range []struct {
		controllers bool
		server      string
	}{
		{true, "<envtest>\n<kube-apiserver>\n<--with-controllers>\n<--a=b c>\n<>\n"},
		{false, "<envtest>\n<kube-apiserver>\n<--a=b c>\n<>\n"},
	} {
		if err := Fill(dir, FillOptions{Setpoint: program, Kubectl: kubectl, WithControllers: test.controllers}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.server, run("kube-apiserver", "--a=b c", "")); diff != "" {
			t.Errorf("kube-apiserver (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("<envtest>\n<etcd>\n<x>\n", run("etcd", "x")); diff != "" {
			t.Errorf("etcd (-want +got):\n%s", diff)
		}
		if got := run("kubectl"); got != "kubectl\n" {
			t.Errorf("kubectl said %q", got)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("the folder holds %v, %v; want three programs", entries, err)
	}
}
