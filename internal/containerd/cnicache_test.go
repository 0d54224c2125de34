package containerd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForgetNetworks(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"ours":    `{"kind": "cniCacheV1", "netns": "/run/setpoint-a/state/netns/cni-1"}`,
		"theirs":  `{"kind": "cniCacheV1", "netns": "/run/netns/cni-2"}`,
		"similar": `{"kind": "cniCacheV1", "netns": "/run/setpoint-ab/state/netns/cni-3"}`,
		"garbage": `{`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := forgetNetworks(dir, "/run/setpoint-a"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"garbage", "similar", "theirs"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if err := forgetNetworks(filepath.Join(dir, "absent"), "/run/setpoint-a"); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}
