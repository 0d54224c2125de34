package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestHealAndUpdate: what dies is replaced or restarted, and an update under
// load loses no request.
func TestHealAndUpdate(t *testing.T) {
	registry := harness.StartRegistry(t)
	v1 := registry.Push("web:1", harness.Web(t, "v1"))
	v2 := registry.Push("web:2", harness.Web(t, "v2"))
	c := harness.Start(t)
	c.Apply(webManifest("web", v1, 3))
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")

	t.Run("a deleted pod is replaced", func(t *testing.T) {
		victim := pods(c, "app=web")[0].Name
		c.Kubectl("delete", "pod", victim)
		c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
		c.Eventually(time.Minute, "three pods, the victim not among them", func() error {
			all := pods(c, "app=web")
			for _, p := range all {
				if p.Name == victim {
					return fmt.Errorf("%s is still there", victim)
				}
			}
			if len(all) != 3 {
				return fmt.Errorf("%d pods", len(all))
			}
			return nil
		})
	})
	t.Run("a killed container is restarted", func(t *testing.T) {
		pod := pods(c, "app=web")[0]
		// The container's first process, found from outside by its cgroup.
		uid := string(pod.UID)
		out, err := exec.Command("sh", "-c", "grep -l "+uid+" /proc/[0-9]*/cgroup | cut -d/ -f3").Output()
		if err != nil {
			t.Fatalf("no process of pod %s: %v", pod.Name, err)
		}
		killed := false
		for _, pid := range strings.Fields(string(out)) {
			if name, _ := exec.Command("cat", "/proc/"+pid+"/comm").Output(); strings.TrimSpace(string(name)) == "web" {
				killed = exec.Command("kill", "-9", pid).Run() == nil
			}
		}
		if !killed {
			t.Fatalf("no process named web in pod %s", pod.Name)
		}
		c.Eventually(time.Minute, "the container runs again", func() error {
			for _, p := range pods(c, "app=web") {
				if p.Name != pod.Name {
					continue
				}
				s := p.Status.ContainerStatuses[0]
				if s.RestartCount != 1 || s.State.Running == nil || !s.Ready || s.LastTerminationState.Terminated == nil {
					return fmt.Errorf("status %+v", s)
				}
				if last := s.LastTerminationState.Terminated; last.ExitCode != 137 || last.Reason != "Error" {
					return fmt.Errorf("last state %+v, want exit code 137 and reason Error", last)
				}
				return nil
			}
			return fmt.Errorf("pod %s is gone", pod.Name)
		})
	})
	t.Run("an update and an undo lose no request", func(t *testing.T) {
		url := "http://" + clusterIP(c, "web") + "/"
		c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
		stop := load(url, 4)
		c.Kubectl("set", "image", "deployment/web", "web="+v2)
		c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
		got, err := get(url)
		if err != nil || !strings.Contains(got, "v2") {
			t.Errorf("after the update: %q, %v", got, err)
		}
		c.Kubectl("rollout", "undo", "deployment/web")
		c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
		answered, failures := stop()
		t.Logf("%d requests answered", answered)
		if len(failures) > 0 {
			t.Errorf("%d requests failed, the first: %v", len(failures), failures[0])
		}
		if answered < 100 {
			t.Errorf("only %d requests were made: too few to tell", answered)
		}
	})
}
