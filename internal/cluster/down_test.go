package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func fill(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, f := range files {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPurgeOther: in a folder that is no cluster's nothing is deleted, whatever
// it has that is named like ours.
func TestPurgeOther(t *testing.T) {
	for _, name := range []string{"bin/tool", "store/x", "pki/key", "volumes/data", "logs/x", "kubectl", "token", "kubelet/x", "precious"} {
		dir := t.TempDir()
		fill(t, dir, name, "setpoint.log")
		if err := Down(t.Context(), Options{DataDir: dir}, true); !errors.Is(err, ErrNoCluster) {
			t.Errorf("%s: %v", name, err)
		}
		for _, f := range []string{name, "setpoint.log"} {
			if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestPurgeRemains: what a start leaves that came to nothing goes, and so does
// what a purge leaves that was cut short; others' files stay.
func TestPurgeRemains(t *testing.T) {
	for what, files := range map[string][]string{
		"nothing": nil, "refused": {"setpoint.log"}, "not begun": {"lock"}, "cut short": {"lock", "volumes/v/data", "bin/x", "kubectl-1/kubectl"},
		"killed while it wrote": {"lock", ".cluster.json.3929466809", ".token.1"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if files != nil {
			fill(t, dir, files...)
		}
		for range 2 {
			if err := Down(t.Context(), Options{DataDir: dir}, true); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: it is there: %v", what, err)
		}
	}
	dir := t.TempDir()
	fill(t, dir, "lock", "store/x", "precious")
	if err := Down(t.Context(), Options{DataDir: dir}, true); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "precious" {
		t.Errorf("it has %v, %v", entries, err)
	}
}
