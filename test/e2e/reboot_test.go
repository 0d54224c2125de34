package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestReboot: the container runtime may be killed, and the machine restarted:
// `up` makes every claim true again, with the volumes and the services.
func TestReboot(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("web:1", harness.Web(t, "v1"))
	c := harness.Start(t)
	c.Kubectl("create", "secret", "generic", "word", "--from-literal=word=open")
	c.Apply(webManifest("web", image, 2) + `
---
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: a
    image: ` + image + `
    command: [sh, -c, "date > /keep/$(date +%s%N); sleep 1000000"]
    volumeMounts: [{name: keep, mountPath: /keep}, {name: word, mountPath: /word}]
  volumes: [{name: keep, emptyDir: {}}, {name: word, secret: {secretName: word}}]
`)
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	c.Await("condition=Ready", "pod/keeper")
	url := "http://" + clusterIP(c, "web") + "/"
	works := func(what string, restarts int32) {
		t.Helper()
		c.Eventually(90*time.Second, what, func() error {
			for _, p := range pods(c, "") {
				s := p.Status.ContainerStatuses
				if len(s) != 1 || !s[0].Ready || s[0].RestartCount != restarts {
					return fmt.Errorf("pod %s: %s", p.Name, states(p))
				}
			}
			if got := c.Kubectl("get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"); got != "2" {
				return fmt.Errorf("%s replicas are ready", got)
			}
			_, err := get(url)
			return err
		})
		contains(t, what, c.Kubectl("exec", "keeper", "--", "cat", "/word/word"), "open")
	}
	works("at first", 0)

	t.Run("the runtime is killed", func(t *testing.T) {
		c := c.In(t)
		before := containerIDs(c, "")
		killed := 0
		for _, p := range processesWith(c.Dir + "/containerd/config-") {
			pid, err := strconv.Atoi(strings.Fields(p)[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
				killed++
			}
		}
		if killed != 1 {
			t.Fatalf("killed %d container runtimes, want one", killed)
		}
		if _, err := get(url); err != nil {
			t.Errorf("while the runtime is dead: %v", err)
		}
		c.Eventually(time.Minute, "exec works again", func() error {
			out, err := c.Try("exec", "keeper", "--", "cat", "/word/word")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		works("with a new runtime", 0)
		if after := containerIDs(c, ""); !maps.Equal(before, after) {
			t.Errorf("containers changed: %v, then %v", before, after)
		}
	})

	names := map[string]bool{}
	for _, p := range pods(c, "") {
		names[p.Name] = true
	}
	c.Reboot()
	c.Up()
	works("after the restart of the machine", 1)
	for _, p := range pods(c, "") {
		if !names[p.Name] {
			t.Errorf("pod %s is new: a restart of the machine restarts containers, it replaces no pods", p.Name)
		}
	}
	c.Eventually(time.Minute, "the second container writes beside what the first wrote", func() error {
		if out := c.Kubectl("exec", "keeper", "--", "ls", "/keep"); len(strings.Fields(out)) != 2 {
			return fmt.Errorf("the volume holds %q", out)
		}
		return nil
	})
	// No address is taken by a pod of before the restart.
	taken, err := filepath.Glob(filepath.Join(c.Dir, "cni", "ipam", "*", "10.*"))
	if err != nil || len(taken) != 3 {
		t.Errorf("addresses taken: %v (%v), want three", taken, err)
	}
	c.Setpoint("down")
	gone(t, c.Dir)
	if _, err := os.Stat(filepath.Join(c.Dir, "store")); err != nil {
		t.Error(err)
	}
}
