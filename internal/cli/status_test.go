package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/internal/cluster"
)

// TestStatusOfParts: a gap in a part that runs alone tells which part it is;
// where there is only one process, no part is named.
func TestStatusOfParts(t *testing.T) {
	own := cluster.Gap{Loop: "bootstrap", Key: "default/kubernetes", State: "waiting", Reason: "no address", Since: time.Now()}
	theirs := cluster.Gap{Loop: "scheduler", Key: "default/web", State: "waiting", Reason: "0/1 nodes", Since: time.Now(), Part: "scheduler/host-1"}
	show := func(gaps ...cluster.Gap) string {
		var out bytes.Buffer
		if err := (&report{Ready: true, Gaps: gaps}).print(&out, "setpoint"); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := show(own); strings.Contains(got, "PART") || !strings.Contains(got, "\nbootstrap  default/kubernetes  waiting") {
		t.Errorf("one process:\n%s", got)
	}
	if got := show(own, theirs); !strings.Contains(got, "\nPART") || !strings.Contains(got, "\nscheduler/host-1  scheduler  default/web") || !strings.Contains(got, "\n                  bootstrap") {
		t.Errorf("several:\n%s", got)
	}
}

// TestStatusOfNodes: of a node that is not ready it is said why, but not of a
// thousand.
func TestStatusOfNodes(t *testing.T) {
	r := &report{Ready: true, Nodes: []nodeLine{{Name: "well", Ready: true}, {Name: "ill", Why: "container runtime is down"}}}
	show := func() string {
		var out bytes.Buffer
		if err := r.print(&out, "setpoint"); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := show(); !strings.Contains(got, "nodes      2, 1 ready\n           ill is not: container runtime is down\npods") || strings.Contains(got, "well") {
		t.Errorf("one:\n%s", got)
	}
	for range 999 {
		r.Nodes = append(r.Nodes, nodeLine{Name: "silent", Why: "silence"})
	}
	if got := show(); strings.Count(got, " is not: ") != 5 || !strings.Contains(got, "           and 995 more\npods") {
		t.Errorf("many:\n%s", got)
	}
}

// TestStatusOfAgent: an agent's data folder tells whose node the machine is,
// and whether the agent runs.
func TestStatusOfAgent(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte(`{"instance":"a","server":"https://10.0.0.1:6443","node":"two"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	if code := Main([]string{"--data-dir", dir, "status"}, nil, &out, &errOut); code != 1 {
		t.Errorf("exit status %d: %s", code, errOut.String())
	}
	for _, want := range []string{"node two of https://10.0.0.1:6443", "not running", " --data-dir " + dir + " agent"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
}

// TestDataDirIsAbsolute: what is printed holds in any folder.
func TestDataDirIsAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	var out, errOut bytes.Buffer
	if code := Main([]string{"--data-dir", "lab", "status"}, nil, &out, &errOut); code != 1 || !strings.Contains(errOut.String(), filepath.Join(dir, "lab")) {
		t.Errorf("exit status %d, %q", code, errOut.String())
	}
}
