package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestReadme: every command of the front page works as typed, in the order in
// which it stands there, after what `make run` does. Only its data folder is
// the test's, and POD and FILE are somebody's.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(harness.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	c := harness.Start(t)
	c.Setpoint("demo")
	pod := strings.Fields(c.Kubectl("get", "pods", "-o", "name"))[0]
	dir := t.TempDir()
	replace := map[string]string{
		"POD": strings.TrimPrefix(pod, "pod/"), "FILE": harness.Archive(t, "example.test/box:1", harness.Busybox(t)),
		"./lab": filepath.Join(dir, "lab"), "./assets": filepath.Join(dir, "assets"),
	}
	says := map[string][]string{ // what shows that it did what its remark claims
		"kubectl get":   {"deployment.apps/hello", "pod/hello-", "service/hello"},
		"kubectl scale": {"deployment.apps/hello scaled"},
		"kubectl top":   {"CPU(cores)", "hello-"},
		"status":        {"nodes      1, 1 ready", "gaps"},
		"why":           {replace["POD"]},
		"image import":  {"example.test/box:1"},
		"server --help": {"Usage:", "--listen"},
	}
	ran := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		command, _, _ := strings.Cut(line, "#")
		args := strings.Fields(command)
		if len(args) < 2 || args[0] != "bin/setpoint" && args[0] != "setpoint" {
			continue
		}
		args = args[1:]
		for i := range args {
			if to, ok := replace[args[i]]; ok {
				args[i] = to
			}
		}
		ran[args[0]] = true
		switch {
		case slices.Equal(args, []string{"up"}):
			c.Up()
		case args[0] == "up": // another cluster, as its own arguments say
			lab := harness.StartProcess(t, args...)
			lab.WaitFor("ready in ")
			lab.Stop()
		case slices.Equal(args, []string{"kubectl", "top", "pods"}): // which are measured a moment after they run
			c.Tells(says["kubectl top"], args...)
		default:
			out := c.Setpoint(args...)
			for about, want := range says {
				if strings.HasPrefix(strings.Join(args, " "), about) {
					contains(t, strings.Join(args, " "), out, want...)
				}
			}
		}
	}
	for _, command := range []string{"kubectl", "status", "why", "down", "up", "image", "server", "envtest"} {
		if !ran[command] {
			t.Errorf("the front page does not show %q any more, or the test does not see it", command)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "assets", "kube-apiserver")); err != nil {
		t.Errorf("envtest's assets: %v", err)
	}
	c.Kubectl("rollout", "status", "deployment/hello", "--timeout=300s") // the data was kept
}
