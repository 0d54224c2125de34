package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store/local"
)

// TestUpRefused: whatever keeps a cluster from opening is an error that says
// so, and nothing stays locked after it.
func TestUpRefused(t *testing.T) {
	up := func(o Options) error {
		o.Nodes = "none"
		ctx, cancel := context.WithCancel(t.Context())
		o.Ready = func(Info) { cancel() }
		return Up(ctx, o)
	}
	file := func(t *testing.T, dir, name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("no folder"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string) (mend func())
		opts  Options
		want  string
	}{
		"the store is in use": {func(t *testing.T, dir string) func() {
			s, err := local.Open(local.Options{Dir: filepath.Join(dir, "store")})
			if err != nil {
				t.Fatal(err)
			}
			return func() { s.Close() }
		}, Options{}, "in use by another process"},
		"the store is no folder": {func(t *testing.T, dir string) func() {
			file(t, dir, "store")
			return func() { os.Remove(filepath.Join(dir, "store")) }
		}, Options{}, "store"},
		"the keys are no folder": {func(t *testing.T, dir string) func() {
			file(t, dir, "pki")
			return func() { os.Remove(filepath.Join(dir, "pki")) }
		}, Options{}, "pki"},
		"the address is not ours": {func(*testing.T, string) func() { return func() {} },
			Options{Listen: "192.0.2.1:0"}, "192.0.2.1"},
		"the request log is a folder": {func(*testing.T, string) func() { return func() {} },
			Options{RequestLog: "/"}, "/"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mend := c.spoil(t, dir)
			o := c.opts
			o.DataDir = dir
			if err := up(o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
			mend()
			if err := up(Options{DataDir: dir, Listen: "127.0.0.1:0"}); err != nil {
				t.Errorf("once mended: %v", err)
			}
		})
	}
}
