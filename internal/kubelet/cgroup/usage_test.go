package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// files writes a folder of a hierarchy.
func files(t *testing.T, dir string, content map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range content {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func same(t *testing.T, got Usage, err error, want Usage) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got.At.IsZero() || time.Since(got.At) > time.Hour {
		t.Errorf("read at %s", got.At)
	}
	got.At = time.Time{}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestUsage(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	const podDir = "x/kubepods/besteffort/podu"

	two := &Tree{parent: "/x", v2: t.TempDir()}
	files(t, filepath.Join(two.v2, podDir), map[string]string{
		"cpu.stat":       "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n",
		"memory.current": "1000\n", "memory.swap.current": "7\n", "pids.current": "3\n",
		"memory.stat": "anon 300\nfile 600\ninactive_file 400\npgfault 11\npgmajfault 2\n",
	})
	want := Usage{CPU: 1_500_000, Memory: 1000, WorkingSet: 600, RSS: 300, Swap: 7, Faults: 11, MajorFaults: 2, Processes: 3}
	got, err := two.OfPod(pod)
	same(t, got, err, want)

	one := &Tree{parent: "/x", v1: map[string]string{"cpuacct": t.TempDir(), "memory": t.TempDir(), "pids": t.TempDir()}}
	files(t, filepath.Join(one.v1["cpuacct"], podDir), map[string]string{"cpuacct.usage": "1500000\n"})
	files(t, filepath.Join(one.v1["pids"], podDir), map[string]string{"pids.current": "3\n"})
	files(t, filepath.Join(one.v1["memory"], podDir), map[string]string{
		"memory.usage_in_bytes": "1000\n",
		"memory.stat":           "rss 1\ninactive_file 1\ntotal_rss 300\ntotal_swap 7\ntotal_inactive_file 400\ntotal_pgfault 11\ntotal_pgmajfault 2\n",
	})
	got, err = one.OfPod(pod)
	same(t, got, err, want)

	// Read one after the other, the parts may be more than the whole.
	files(t, filepath.Join(one.v1["memory"], podDir), map[string]string{"memory.usage_in_bytes": "300\n"})
	if got, err := one.OfPod(pod); err != nil || got.WorkingSet != 0 {
		t.Errorf("the working set is %d, %v", got.WorkingSet, err)
	}
	if _, err := two.OfPods(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a group that is not there: %v", err)
	}
}

// The root of version 2 has cpu.stat but no memory.current.
func TestUsageOfNode(t *testing.T) {
	root, proc := t.TempDir(), t.TempDir()
	files(t, root, map[string]string{"cpu.stat": "usage_usec 1500\n"})
	files(t, proc, map[string]string{
		"stat":    "cpu  10 20 30 1000 500 1 2 3 4 5\ncpu0 1 2 3\n",
		"meminfo": "MemTotal:       1000 kB\nMemFree:         400 kB\nInactive(file):   100 kB\nAnonPages:         50 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\nHugePages_Total: 0\n",
	})
	tree := &Tree{parent: "/x", v2: root}
	if _, err := tree.read("/"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the root is read with %v", err)
	}
	got, err := tree.kernel(proc)
	same(t, got, err, Usage{CPU: 66 * 10_000_000, Memory: 600 << 10, WorkingSet: 500 << 10, RSS: 50 << 10, Swap: 6 << 10})
}

// This machine's own account can be read, and its CPU time does not go back.
func TestUsageOfThisMachine(t *testing.T) {
	tree, err := Open("/")
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	first, err := tree.OfNode()
	if err != nil {
		t.Fatal(err)
	}
	second, err := tree.OfNode()
	if err != nil || second.CPU < first.CPU || first.CPU == 0 || first.Memory < first.WorkingSet || first.WorkingSet == 0 {
		t.Errorf("first %+v, then %+v, %v", first, second, err)
	}
}
