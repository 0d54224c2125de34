package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// served is a Deployment of four, spread over the nodes, behind a Service and
// guarded by a budget that lets one of them be missing.
func served(name, image, container string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 4
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s, kind: served}}
    spec:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: %[1]s}}}
      containers:
      - name: %[1]s
        image: %[2]s
        %[3]s
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[1]s}
spec: {minAvailable: 3, selector: {matchLabels: {app: %[1]s}}}
---
`, name, image, container)
}

// TestDrain: nodes are drained under load, taken back, and what runs on them is
// upgraded: no request is lost, and no budget broken. One program drains by
// itself when it is told to end, the other ends at once and leaves the draining
// to its preStop hook. Both are asked from either node, from pods on either
// node, over new connections and kept ones, and with answers that take a while.
func TestDrain(t *testing.T) {
	c, machine, dir := twoNodes(t)
	place := func(image string, what harness.Image) {
		archive := harness.Archive(t, image, what)
		c.Setpoint("image", "import", archive)
		machine.Run(harness.Binary(t), "--data-dir", dir, "image", "import", archive)
	}
	tool := harness.Tool(t)
	place("example.test/web:1", harness.Web(t, "v1"))
	place("example.test/web:2", harness.Web(t, "v2"))
	const hook = `readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, timeoutSeconds: 20}
        lifecycle: {preStop: {sleep: {seconds: 8}}}
        env: [{name: EDITION, value: "1"}]`
	const graceful = `readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1, timeoutSeconds: 20}
        env: [{name: DRAIN, value: 8s}]`
	c.Apply(served("hook", "example.test/tool:1", hook) + served("web", "example.test/web:1", graceful) +
		onePod("near", "example.test/tool:1", "nodeName: first", "") + onePod("far", "example.test/tool:1", "nodeName: second", ""))
	for _, name := range []string{"hook", "web"} {
		c.Kubectl("rollout", "status", "deployment/"+name, "--timeout=300s")
		c.Await("jsonpath={.status.disruptionsAllowed}=1", "pdb/"+name)
	}
	ready(c, "near", "far")
	on := func(node string) int {
		return len(strings.Fields(c.Kubectl("get", "pods", "-l", "kind=served", "--field-selector", "spec.nodeName="+node, "-o", "name")))
	}
	if first, second := on("first"), on("second"); first != 4 || second != 4 {
		t.Fatalf("%d pods on the first node, %d on the second; want them spread evenly", first, second)
	}

	hooked, web := "http://"+clusterIP(c, "hook")+"/", "http://"+clusterIP(c, "web")+"/"
	asked := []string{"load", hooked, hooked, hooked + "slow", hooked + "slow", web, "keep:" + web}
	program := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(program, tool.Files["/bin/tool"], 0o700); err != nil {
		t.Fatal(err)
	}
	// The far pod's requests take their way from the node that is drained.
	callers := map[string]*caller{
		"the first node":          call(t, exec.Command(program, asked...)),
		"the second node":         call(t, machine.Command(append([]string{program}, asked...)...)),
		"a pod on the first node": call(t, c.Command(context.Background(), append([]string{"exec", "-i", "near", "--", "tool"}, asked...)...)),
		"a pod on the second":     call(t, c.Command(context.Background(), append([]string{"exec", "-i", "far", "--", "tool"}, asked...)...)),
	}
	guard := watchAvailable(t, c, "hook", "web")

	drain := func(node string) {
		t.Helper()
		c.Kubectl("drain", node, "--pod-selector=kind=served", "--timeout=600s")
		if n := on(node); n != 0 {
			t.Errorf("%d pods are left on the %s node, which was drained", n, node)
		}
		for _, name := range []string{"hook", "web"} {
			c.Kubectl("rollout", "status", "deployment/"+name, "--timeout=300s")
		}
		contains(t, "a drained node", c.Kubectl("get", "node", node), "SchedulingDisabled")
		c.Kubectl("uncordon", node)
	}
	drain("second")
	c.Kubectl("set", "image", "deployment/web", "web=example.test/web:2")
	c.Kubectl("set", "env", "deployment/hook", "EDITION=2")
	for _, name := range []string{"web", "hook"} {
		c.Kubectl("rollout", "status", "deployment/"+name, "--timeout=300s")
	}
	if got, err := get(web); err != nil || !strings.Contains(got, "v2") {
		t.Errorf("after the upgrade: %q, %v", got, err)
	}
	if n := on("second"); n == 0 {
		t.Error("a node that was taken back gets nothing")
	}
	drain("first")

	guard()
	for who, caller := range callers {
		caller.hangUp(t, who, len(asked)-1)
	}
}

// caller is a `tool load` that runs.
type caller struct {
	cmd    *exec.Cmd
	input  io.Closer
	output bytes.Buffer
}

func call(t *testing.T, cmd *exec.Cmd) *caller {
	t.Helper()
	c := &caller{cmd: cmd}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.input = input
	cmd.Stdout, cmd.Stderr = &c.output, &c.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return c
}

var tally = regexp.MustCompile(`(?m)^(\S+) answered (\d+), lost (\d+)$`)

// hangUp ends a caller, which must have been answered at each of so many URLs,
// always.
func (c *caller) hangUp(t *testing.T, who string, urls int) {
	t.Helper()
	c.input.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("%s: %v", who, err)
	}
	said := c.output.String()
	lines := tally.FindAllStringSubmatch(said, -1)
	if len(lines) != urls {
		t.Errorf("%s tells of %d URLs, want %d:\n%s", who, len(lines), urls, said)
	}
	for _, line := range lines {
		t.Logf("%s: %s", who, line[0])
		if answered, _ := strconv.Atoi(line[2]); answered < 10 {
			t.Errorf("%s was answered %d times by %s: too few to tell", who, answered, line[1])
		}
		if line[3] != "0" {
			t.Errorf("%s lost requests:\n%s", who, said)
			return
		}
	}
}

// watchAvailable follows how many pods of Deployments are available until it is
// called; never may it have been fewer than their budgets allow.
func watchAvailable(t *testing.T, c *harness.Cluster, names ...string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, name := range names {
		cmd := c.Command(ctx, "get", "deployment", name, "--watch", "-o", `jsonpath={.status.availableReplicas}{"\n"}`)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			seen := 0
			for lines := bufio.NewScanner(out); lines.Scan(); seen++ {
				if n, err := strconv.Atoi(lines.Text()); err != nil || n < 3 {
					t.Errorf("at %s %q pods of %s are available, its budget wants 3", time.Now().UTC().Format("15:04:05.000"), lines.Text(), name)
				}
			}
			if seen < 4 {
				t.Errorf("only %d changes of %s were seen", seen, name)
			}
			cmd.Wait()
		})
	}
	end = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	t.Cleanup(end)
	return end
}
