package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestCrash: kill -9 of everything of ours stops no container and loses no
// acknowledged write.
func TestCrash(t *testing.T) {
	registry := harness.StartRegistry(t)
	v1 := registry.Push("web:1", harness.Web(t, "v1"))
	v2 := registry.Push("web:2", harness.Web(t, "v2"))
	c := harness.Start(t)
	c.Apply(webManifest("web", v1, 3))
	c.Apply(webManifest("other", v1, 2))
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	c.Kubectl("rollout", "status", "deployment/other", "--timeout=300s")
	url := "http://" + clusterIP(c, "other") + "/"

	before := containerIDs(c, "app=other")
	c.Kubectl("set", "image", "deployment/web", "web="+v2)
	c.Kubectl("create", "configmap", "acknowledged", "--from-literal=a=b")
	c.Kill()
	for range 20 {
		if _, err := get(url); err != nil {
			t.Fatalf("while Setpoint is dead: %v", err)
		}
	}
	c.Up()
	contains(t, "what was acknowledged", c.Kubectl("get", "configmap", "acknowledged", "-o", "jsonpath={.data.a}"), "b")
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	if after := containerIDs(c, "app=other"); !maps.Equal(before, after) {
		t.Errorf("containers changed over a crash: %v, then %v", before, after)
	}
	c.Eventually(time.Minute, "no pod too many", func() error {
		all := pods(c, "app=web")
		if len(all) != 3 {
			return fmt.Errorf("%d pods", len(all))
		}
		for _, p := range all {
			if p.Spec.Containers[0].Image != v2 {
				return fmt.Errorf("pod %s has image %s", p.Name, p.Spec.Containers[0].Image)
			}
		}
		return nil
	})
	// Restarts were no restarts of containers.
	for _, p := range pods(c, "app=other") {
		if n := p.Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("pod %s: %d restarts", p.Name, n)
		}
	}

	t.Run("a container that dies meanwhile", func(t *testing.T) {
		gate := t.TempDir()
		c.Apply(`
apiVersion: v1
kind: Pod
metadata: {name: brief}
spec:
  restartPolicy: Never
  containers: [{name: a, image: "` + v1 + `", command: [sh, -c, "until test -e /gate/open; do sleep 0.1; done; exit 3"],
    volumeMounts: [{name: gate, mountPath: /gate}]}]
  volumes: [{name: gate, hostPath: {path: ` + gate + `}}]
`)
		c.Await("condition=Ready", "pod/brief")
		container := strings.TrimPrefix(c.Kubectl("get", "pod", "brief", "-o", "jsonpath={.status.containerStatuses[0].containerID}"), "containerd://")
		if left := processesOf(container); len(left) == 0 {
			t.Fatalf("no process in the cgroup of container %s", container)
		}
		c.Kill()
		if err := os.WriteFile(filepath.Join(gate, "open"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c.Eventually(time.Minute, "the container ends while nobody watches", func() error {
			if left := processesOf(container); len(left) > 0 {
				return fmt.Errorf("there are %v", left)
			}
			return nil
		})
		c.Up()
		c.Await("jsonpath={.status.phase}=Failed", "pod/brief")
		contains(t, "exit code", c.Kubectl("get", "pod", "brief", "-o", "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"), "3")
	})
	t.Run("terminated cleanly", func(t *testing.T) {
		before := containerIDs(c, "app=other")
		c.Stop()
		if _, err := get(url); err != nil {
			t.Errorf("while Setpoint is stopped: %v", err)
		}
		c.Up()
		if after := containerIDs(c, "app=other"); !maps.Equal(before, after) {
			t.Errorf("containers changed over a restart: %v, then %v", before, after)
		}
	})
}

// TestParts: the parts alone, over the network, each killed and doubled amid
// a rollout.
func TestParts(t *testing.T) {
	t.Parallel()
	c := harness.StartServer(t)
	controllers, scheduler := c.Part("controllers"), c.Part("scheduler")
	sim := c.Part("simnodes", "--count", "5")
	defer sim.Stop()
	c.Eventually(time.Minute, "five nodes ready", func() error {
		if n := strings.Count(c.Kubectl("get", "nodes"), " Ready "); n != 5 {
			return fmt.Errorf("%d ready", n)
		}
		return nil
	})
	whole := func(what string, n int) {
		t.Helper()
		c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
		c.Eventually(time.Minute, what, func() error {
			if got := len(pods(c, "app=web")); got != n {
				return fmt.Errorf("%d pods, want %d", got, n)
			}
			return nil
		})
	}
	c.Apply(webManifest("web", "sim:1", 20))
	whole("the first rollout", 20)

	c.Kubectl("set", "image", "deployment/web", "web=sim:2")
	controllers.Kill()
	controllers = c.Part("controllers")
	whole("controllers killed amid a rollout", 20)

	c.Kubectl("scale", "deployment/web", "--replicas=40")
	scheduler.Kill()
	scheduler = c.Part("scheduler")
	whole("scheduler killed amid a scale-up", 40)

	more := []*harness.Process{c.Part("controllers"), c.Part("scheduler")}
	c.Kubectl("set", "image", "deployment/web", "web=sim:3")
	whole("two copies of each", 40)
	c.Kubectl("scale", "deployment/web", "--replicas=10")
	whole("two copies of each, scaled down", 10)
	for _, p := range append(more, controllers, scheduler) {
		p.Stop()
	}
}
