package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestPending: a hundred replicas that no node can take say why, node by node;
// lowered, they converge.
func TestPending(t *testing.T) {
	t.Parallel()
	c := harness.Start(t, "--nodes", "sim=3")
	c.Apply(webManifest("big", "sim:1", 100, "      # 16 CPUs each: two fit on a node of 32"))
	c.Kubectl("set", "resources", "deployment/big", "--requests=cpu=16")
	c.Kubectl("patch", "deployment", "big", "-p", `{"spec":{"progressDeadlineSeconds":5,"strategy":{"type":"Recreate","rollingUpdate":null}}}`)
	c.Eventually(time.Minute, "six run, 94 pend", func() error {
		running, pending := 0, 0
		for _, p := range pods(c, "app=big") {
			if p.DeletionTimestamp != nil || p.Spec.Containers[0].Resources.Requests.Cpu().Value() != 16 {
				continue
			}
			switch p.Status.Phase {
			case "Running":
				running++
			case "Pending":
				pending++
			}
		}
		if running != 6 || pending != 94 {
			return fmt.Errorf("%d running, %d pending", running, pending)
		}
		return nil
	})
	c.Eventually(time.Minute, "those that pend say why", func() error {
		for _, p := range pods(c, "app=big") {
			if p.Spec.NodeName != "" {
				continue
			}
			found := false
			for _, cond := range p.Status.Conditions {
				if cond.Type == "PodScheduled" && cond.Status == "False" && cond.Reason == "Unschedulable" {
					found = strings.HasPrefix(cond.Message, "0/3 nodes are available: 3 Insufficient cpu.")
				}
			}
			if !found {
				return fmt.Errorf("pod %s does not: %+v", p.Name, p.Status.Conditions)
			}
		}
		return nil
	})
	c.Shows([]string{"0/3 nodes are available: 3 Insufficient cpu"}, "get", "events", "--field-selector", "reason=FailedScheduling")
	c.Eventually(time.Minute, "the Deployment says that it does not progress", func() error {
		out := c.Kubectl("get", "deployment", "big", "-o", `jsonpath={range .status.conditions[*]}{.type}={.status}:{.reason} {end}`)
		for _, want := range []string{"Available=False:MinimumReplicasUnavailable", "Progressing=False:ProgressDeadlineExceeded"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("conditions %s, want %s", out, want)
			}
		}
		return nil
	})
	c.Tells([]string{"Insufficient cpu"}, "status")
	c.Kubectl("patch", "deployment", "big", "-p", `{"spec":{"progressDeadlineSeconds":600}}`) // five seconds are little on a busy machine
	c.Kubectl("set", "resources", "deployment/big", "--requests=cpu=100m")
	c.Kubectl("rollout", "status", "deployment/big", "--timeout=300s")
	contains(t, "lowered", c.Kubectl("get", "deployment", "big"), "100/100")
}

// TestSilentNode: a node that falls silent is given up, its pods replaced
// elsewhere; it comes back clean.
func TestSilentNode(t *testing.T) {
	t.Parallel() // nearly all of it is waiting
	c := harness.Start(t, "--nodes", "sim=3")
	c.Apply(webManifest("web", "sim:1", 9, "      tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]"))
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	node := pods(c, "app=web")[0].Spec.NodeName
	c.Kubectl("annotate", "node", node, "setpoint.dev/sim-silent=true")
	c.Await("condition=Ready=Unknown", "node/"+node)
	c.Eventually(30*time.Second, "the node is tainted", func() error {
		out := c.Kubectl("get", "node", node, "-o", "jsonpath={.spec.taints}")
		if !strings.Contains(out, "node.kubernetes.io/unreachable") || !strings.Contains(out, "NoExecute") {
			return fmt.Errorf("taints %s", out)
		}
		return nil
	})
	contains(t, "get nodes", c.Kubectl("get", "node", node), "NotReady")
	c.Eventually(time.Minute, "nine pods ready elsewhere", func() error {
		ready := 0
		for _, p := range pods(c, "app=web") {
			if p.Spec.NodeName != node && p.DeletionTimestamp == nil && p.Status.Phase == "Running" {
				ready++
			}
		}
		if ready != 9 {
			return fmt.Errorf("%d ready elsewhere", ready)
		}
		return nil
	})
	c.Kubectl("annotate", "node", node, "setpoint.dev/sim-silent-")
	c.Await("condition=Ready", "node/"+node)
	c.Eventually(time.Minute, "it comes back clean", func() error {
		if out := c.Kubectl("get", "node", node, "-o", "jsonpath={.spec.taints}"); strings.TrimSpace(out) != "" {
			return fmt.Errorf("taints %s", out)
		}
		all := pods(c, "app=web")
		if len(all) != 9 {
			return fmt.Errorf("%d pods", len(all))
		}
		return nil
	})
}
