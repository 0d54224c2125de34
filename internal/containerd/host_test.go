package containerd

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHasCapability(t *testing.T) {
	const (
		full    = "Name:\tx\nCapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\n"
		without = "CapPrm:\t000001ffffffffff\nCapEff:\t000001fffeffffff\nCapBnd:\t000001ffffffffff\n"
	)
	for _, test := range []struct {
		status string
		want   bool
	}{
		{full, true},
		{without, false},
		{"CapEff:\t0000000000000000\n", false},
		{"CapEff:\tnonsense\n", false},
		{"", false},
	} {
		if got := hasCapability(test.status, unix.CAP_SYS_RESOURCE); got != test.want {
			t.Errorf("hasCapability(%q) = %v, want %v", test.status, got, test.want)
		}
	}
}

func TestSnapshotterFor(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if got := snapshotterFor(dir); got != "overlayfs" && got != "native" {
		t.Errorf("the snapshotter is %q", got)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("the probe left %v, %v", left, err)
	}
	// procfs cannot be written to, let alone hold an overlay.
	if got := snapshotterFor("/proc"); got != "native" {
		t.Errorf("the snapshotter on procfs is %q, want native", got)
	}
}
