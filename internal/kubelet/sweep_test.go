package kubelet

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri/critest"
	"github.com/setpoint-project/setpoint/loop"
)

// TestOrphans: what a pod has left that cannot be taken away is a gap, until it
// can; what a pod has that is known is left alone.
func TestOrphans(t *testing.T) {
	root := t.TempDir()
	volume := func(uid string) string {
		return filepath.Join(root, "pods", uid, "volumes", "kubernetes.io~csi", "data")
	}
	for _, uid := range []string{"known", "stays", "goes"} {
		if err := os.MkdirAll(volume(uid), 0o750); err != nil {
			t.Fatal(err)
		}
		if uid == "goes" {
			continue // nothing was asked of any driver
		}
		record := `{"driver":"disk.example.com","volumeHandle":"h","podVolume":"v","boot":"b"}`
		if err := os.WriteFile(filepath.Join(volume(uid), "vol_data.json"), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, err := New(Options{NodeName: "n1", Client: apitest.New(t, apitest.Options{}).Client("system:node:n1"), NodeIPs: []netip.Addr{netip.IPv6Loopback()}, Runtime: critest.New(), RootDir: root, PodLogsDir: filepath.Join(root, "logs")})
	if err != nil {
		t.Fatal(err)
	}
	known := func(uid types.UID) bool { return uid == "known" }
	orphans := func() (out []loop.Gap) {
		for _, g := range k.Gaps() {
			if g.Key.Namespace == ofOrphans {
				out = append(out, g)
			}
		}
		return out
	}
	k.clear(t.Context(), known)
	got := orphans()
	if len(got) != 1 || got[0].Key.Name != "stays" || got[0].State != loop.Failing || !strings.Contains(got[0].Reason, "orphaned volumes: ") || !strings.Contains(got[0].Reason, "disk.example.com") {
		t.Fatalf("got %v", got)
	}
	k.clear(t.Context(), known)
	if again := orphans(); len(again) != 1 || !again[0].Since.Equal(got[0].Since) {
		t.Errorf("at the next look %v, want it since %v", again, got[0].Since)
	}
	if _, err := os.Stat(volume("goes")); !os.IsNotExist(err) {
		t.Errorf("what no driver has is still there: %v", err)
	}
	if _, err := os.Stat(volume("known")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(volume("stays")); err != nil {
		t.Fatal(err)
	}
	k.clear(t.Context(), known)
	if got := orphans(); len(got) != 0 {
		t.Errorf("afterwards %v", got)
	}
}
