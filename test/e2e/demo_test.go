package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestDemo: what `make run` shows: the claim, a pod deleted by hand, and who
// closed the gap.
func TestDemo(t *testing.T) {
	c := harness.Start(t)
	first := c.Setpoint("demo")
	contains(t, "demo", first, "you filed a claim", "replicaset     create pod hello-", "scheduler      bind pod hello-", " is ready",
		"deployment     3 of 3 replicas ready", "endpointslice", "takes connections to Service hello", "you            delete pod hello-",
		"api server     pod hello-", "takes no new connections", " is gone", "next:", "kubectl get deployment,pod,service")
	_, healed, _ := strings.Cut(first, "you            delete pod")
	if n := strings.Count(healed, "create pod"); n != 1 {
		t.Errorf("%d pods were made for the one deleted:\n%s", n, healed)
	}
	// It may be shown again.
	second := c.Setpoint("demo")
	contains(t, "demo again", second, "the claim is filed already", "you            delete pod hello-", " is gone", "next:")
	if before, _, _ := strings.Cut(second, "you            delete pod"); strings.Contains(before, "create pod") {
		t.Errorf("pods of an earlier run are told as new:\n%s", before)
	}
	c.Eventually(time.Minute, "status tells of no gap", func() error {
		if out := c.Setpoint("status"); !strings.Contains(out, "none: every loop has closed what it saw") {
			return fmt.Errorf("it says:\n%s", out)
		}
		return nil
	})
}
