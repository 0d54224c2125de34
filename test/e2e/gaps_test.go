package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestGapsOfParts: `setpoint status` tells the gaps of loops in other
// processes, also after the API server was started anew, and which of them has
// fallen silent.
func TestGapsOfParts(t *testing.T) {
	t.Parallel()
	c := harness.StartServer(t)
	c.Part("controllers")
	c.Part("simnodes", "--count", "2")
	scheduler := c.Part("scheduler")
	c.Eventually(time.Minute, "two nodes ready", func() error {
		if out := c.Kubectl("get", "nodes"); strings.Count(out, " Ready ") != 2 {
			return fmt.Errorf("nodes:\n%s", out)
		}
		return nil
	})
	c.Apply(webManifest("big", "sim:1", 1))
	c.Kubectl("set", "resources", "deployment/big", "--requests=cpu=1000")
	told := func(what string, wants ...string) {
		t.Helper()
		c.Eventually(time.Minute, what, func() error {
			out := c.Setpoint("status")
			for line := range strings.Lines(out) {
				missing := false
				for _, want := range wants {
					missing = missing || !strings.Contains(line, want)
				}
				if !missing {
					return nil
				}
			}
			return fmt.Errorf("no line with %q in\n%s", wants, out)
		})
	}
	pending := []string{"scheduler/", "default/big-", "0/2 nodes are available: 2 Insufficient cpu"}
	told("the pod's gap", pending...)
	told("the Deployment's gap", "controllers/", "deployment", "default/big")

	second := c.Part("scheduler")
	c.Stop()
	c.Up()
	told("the gap after a restart of the API server", pending...)
	scheduler.Kill()
	told("the gap with one of two schedulers killed", pending...)
	second.Kill()
	told("the silence of the other", "silent", "scheduler", "no word since")
	var report struct {
		Ready bool
		Gaps  []struct{ Loop, State string }
	}
	if err := json.Unmarshal([]byte(c.Setpoint("status", "-o", "json")), &report); err != nil || !report.Ready || len(report.Gaps) == 0 {
		t.Errorf("in JSON: %+v, error %v", report, err)
	}
	c.Part("scheduler")
	told("a new one", pending...)
}
