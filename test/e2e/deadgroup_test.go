package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestDeadGroup: an APIService whose server is not there holds up nobody but who
// must know what is in it, and that one says so.
func TestDeadGroup(t *testing.T) {
	t.Parallel()
	c := harness.Start(t, "--nodes", "sim=1")
	c.Apply(`apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.dead.example.com}
spec:
  group: dead.example.com
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  insecureSkipTLSVerify: true
  service: {namespace: default, name: nowhere}
`)
	c.Kubectl("create", "namespace", "goes")
	c.Kubectl("-n", "goes", "create", "configmap", "held")
	c.Apply(webManifest("web", "sim:1", 3))
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	c.Kubectl("delete", "deployment", "web", "--cascade=foreground", "--wait=true", "--timeout=300s")
	if left := pods(c, "app=web"); len(left) > 0 {
		t.Errorf("%d pods outlive their deployment", len(left))
	}

	c.Kubectl("delete", "namespace", "goes", "--wait=false")
	c.Eventually(30*time.Second, "the namespace says whom it waits for", func() error {
		out := c.Kubectl("get", "namespace", "goes", "-o", `jsonpath={.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")].message}`)
		if !strings.Contains(out, "dead.example.com/v1: stale GroupVersion discovery") {
			return fmt.Errorf("it says %q", out)
		}
		return nil
	})
	c.Tells([]string{"dead.example.com/v1"}, "status")
	if out := c.Kubectl("-n", "goes", "get", "configmap", "held", "--ignore-not-found", "-o", "name"); out != "" {
		t.Errorf("%s is kept for what is elsewhere", out)
	}
	c.Kubectl("delete", "apiservice", "v1.dead.example.com")
	c.Eventually(30*time.Second, "the namespace goes", func() error {
		if out := c.Kubectl("get", "namespace", "goes", "--ignore-not-found", "-o", "name"); out != "" {
			return errors.New(out)
		}
		return nil
	})
}
