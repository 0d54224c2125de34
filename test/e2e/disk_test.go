package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestFullDisk: a server whose disk is full ends by itself and says why; once
// there is space it starts again, and nothing that was acknowledged is lost.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "sp-")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	// After the server's end, which is a cleanup that is made later.
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
		os.RemoveAll(dir)
	})
	log := t.TempDir() // of requests: not on that disk
	c := harness.StartServerIn(t, dir, "--request-log", filepath.Join(log, "requests.jsonl"))
	c.Kubectl("create", "configmap", "before", "--from-literal=a=b")
	acknowledged := []string{"namespace/default", "configmap/before"}
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	payload := filepath.Join(log, "payload")
	if err := os.WriteFile(payload, []byte(strings.Repeat("x", 500_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("map-%d", i)
		if out, err := c.Try("create", "configmap", name, "--from-file="+payload); err != nil {
			t.Logf("after %d objects: %s", i, out)
			break
		}
		acknowledged = append(acknowledged, "configmap/"+name)
		if i == 100 {
			t.Fatal("a full disk takes 100 objects of 500 kB")
		}
	}
	if code := c.Process().Wait(); code != 3 {
		t.Errorf("exit status %d, want 3", code)
	}
	contains(t, "the last words", c.Process().Output(), "error: data folder: store: a write could not be made durable", "no space left on device", "start again")
	again := harness.StartProcess(t, "--data-dir", dir, "server")
	if code := again.Wait(); code != 3 {
		t.Errorf("opened while the disk is full: exit status %d, want 3", code)
	}
	contains(t, "opened while the disk is full", again.Output(), "error: ", "no space left on device", "start again")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	c.Up()
	for _, name := range acknowledged {
		c.Kubectl("get", name)
	}
	c.Kubectl("create", "configmap", "again", "--from-literal=a=b")
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
