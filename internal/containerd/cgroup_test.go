package containerd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemoveCgroups(t *testing.T) {
	needRoot(t)
	parent := "/setpoint-test-" + strconv.Itoa(os.Getpid())
	roots, err := cgroupRoots()
	if err != nil || len(roots) == 0 {
		t.Fatalf("cgroup hierarchies: %q, %v", roots, err)
	}
	// A process in the innermost group of every hierarchy.
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, root := range roots {
		group := filepath.Join(root, parent, "pod", "container")
		if err := os.MkdirAll(group, 0o755); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, filepath.Join(root, parent))
		// A cpuset without processors takes no process; the others will do.
		err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)), 0)
		if err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- sleep.Wait() }()
	if err := removeCgroups(context.Background(), parent); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the process in the cgroup ended by itself")
	}
	for _, group := range groups {
		if _, err := os.Stat(group); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", group, err)
		}
	}
	if err := removeCgroups(context.Background(), parent); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
	if err := removeCgroups(context.Background(), ""); err != nil {
		t.Errorf("removing nothing: %v", err)
	}
}

// The daemon and the shims are not in our cgroups, so what kills ours leaves
// them alone.
func TestRuntimeHasCgroupsOfItsOwn(t *testing.T) {
	i := newInstance(t, "cgroup")
	i.run()
	i.pod("web")
	shims := i.processes(i.layout().isShim)
	if len(shims) != 1 {
		t.Fatalf("shims are %v, want one", shims)
	}
	for _, pid := range []int{i.daemonPID(), shims[0]} {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		in := 0
		for line := range strings.Lines(string(data)) {
			fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
			if path := fields[len(fields)-1]; path == i.layout().cgroup {
				in++
			} else if !strings.Contains(line, "cpuset") {
				t.Errorf("process %d: %s; want %s", pid, strings.TrimSpace(line), i.layout().cgroup)
			}
		}
		if in == 0 {
			t.Errorf("process %d is in no cgroup of its own:\n%s", pid, data)
		}
	}
}
