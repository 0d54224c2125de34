package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestBeside: two clusters on one machine do not see each other, taking one
// down leaves nothing of it, and starting it again makes its claims true.
func TestBeside(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("web:1", harness.Web(t, "v1"))
	one, two := harness.Start(t), harness.Start(t)
	url := map[*harness.Cluster]string{}
	serves := func(c *harness.Cluster) {
		t.Helper()
		c.Kubectl("rollout", "status", "deployment/web", "--timeout=120s")
		c.Eventually(30*time.Second, "its service answers", func() error {
			got, err := get(url[c])
			if err != nil {
				return err
			}
			for _, p := range pods(c, "app=web") {
				if strings.Contains(got, p.Name) {
					return nil
				}
			}
			return fmt.Errorf("answered by %q, a pod of another", got)
		})
	}
	for _, c := range []*harness.Cluster{one, two} {
		c.Apply(webManifest("web", image, 2))
		url[c] = "http://" + clusterIP(c, "web") + "/"
	}
	serves(one)
	serves(two)

	one.Setpoint("down")
	gone(t, one)
	serves(two)
	one.Up()
	one.Eventually(time.Minute, "the claims are true again", func() error {
		if out := one.Kubectl("get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"); out != "2" {
			return fmt.Errorf("%s ready", out)
		}
		_, err := get(url[one])
		return err
	})
	serves(one)
}

// gone wants nothing of a cluster to be left on the machine but its data.
func gone(t *testing.T, c *harness.Cluster) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(c.Dir, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ Instance string }
	if err := json.Unmarshal(b, &state); err != nil || state.Instance == "" {
		t.Fatalf("no instance in %s: %v", b, err)
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Name == "sp-"+state.Instance {
			t.Errorf("link %s is left", l.Name)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), c.Dir+"/") || strings.Contains(string(mounts), "setpoint-"+state.Instance) {
		t.Errorf("mounts are left (%v):\n%s", err, mounts)
	}
	if left := processesOf("/setpoint-" + state.Instance); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/setpoint-" + state.Instance + "*", "/sys/fs/cgroup/*/setpoint-" + state.Instance + "*", "/run/setpoint-" + state.Instance + "*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	ranges := rangesOf(t, b)
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		t.Fatal(err)
	}
	for _, hex := range ranges {
		if strings.Contains(string(routes), "\t"+hex+"\t") {
			t.Errorf("a route to %s is left:\n%s", hex, routes)
		}
	}
}

// rangesOf lists the addresses of a cluster's ranges as /proc/net/route writes
// them.
func rangesOf(t *testing.T, state []byte) []string {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal(state, &s); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range s {
		text, _ := v.(string)
		if _, n, err := net.ParseCIDR(text); err == nil && n.IP.To4() != nil {
			ip := n.IP.To4()
			out = append(out, fmt.Sprintf("%02X%02X%02X%02X", ip[3], ip[2], ip[1], ip[0]))
		}
	}
	if len(out) < 2 {
		t.Fatalf("no ranges in %s", state)
	}
	return out
}
