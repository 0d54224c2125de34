package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestAgent: a second machine joins, runs pods, and services lead from either
// machine, and from pods, to the pods of both.
func TestAgent(t *testing.T) {
	machine := harness.StartMachine(t)
	c := harness.Start(t, "--listen", harness.HereIP+":0", "--node-ip", harness.HereIP, "--node-name", "first")
	server := c.Kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	token, err := os.ReadFile(filepath.Join(c.Dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sp-")
	if err != nil {
		t.Fatal(err)
	}
	agent := machine.Start("--data-dir", dir, "agent", "--server", server, "--token", strings.TrimSpace(string(token)), "--node-ip", harness.ThereIP, "--node-name", "second")
	t.Cleanup(func() {
		agent.Stop()
		machine.Run(harness.Binary(t), "--data-dir", dir, "down", "--purge")
		os.RemoveAll(dir)
	})
	c.Eventually(time.Minute, "the second node is ready", func() error {
		if out := c.Kubectl("get", "nodes"); strings.Count(out, " Ready ") != 2 {
			return fmt.Errorf("nodes:\n%s", out)
		}
		return nil
	})
	// The tests' registry listens on loopback here, which the other machine
	// does not reach: each gets the image from an archive.
	archive := harness.Archive(t, "example.test/tool:1", harness.Tool(t))
	c.Setpoint("image", "import", archive)
	machine.Run(harness.Binary(t), "--data-dir", dir, "image", "import", archive)
	c.Apply(onePod("here", "example.test/tool:1", "nodeName: first", "") + onePod("there", "example.test/tool:1", "nodeName: second", ""))
	for _, name := range []string{"here", "there"} {
		c.Kubectl("label", "pod", name, "set=both")
	}
	c.Apply("apiVersion: v1\nkind: Service\nmetadata: {name: both}\nspec: {selector: {set: both}, ports: [{port: 80, targetPort: 8080}]}\n")
	ready(c, "here", "there")

	contains(t, "pod to pod, there", sh(c, "here", "tool get http://"+pod(c, "there").Status.PodIP+":8080/"), "there answers "+pod(c, "here").Status.PodIP+":")
	contains(t, "pod to pod, back", sh(c, "there", "tool get http://"+pod(c, "here").Status.PodIP+":8080/"), "here answers "+pod(c, "there").Status.PodIP+":")
	url := "http://" + clusterIP(c, "both") + "/"
	many := "for i in $(seq 30); do timeout 5 wget -q -O - " + url + " || exit 1; done"
	both := func(what, out string) {
		t.Helper()
		contains(t, what, out, "here answers", "there answers")
	}
	c.Eventually(30*time.Second, "the service leads to both", func() error {
		seen := ""
		for range 30 {
			got, err := get(url)
			if err != nil {
				return err
			}
			seen += got
		}
		if !strings.Contains(seen, "here answers") || !strings.Contains(seen, "there answers") {
			return fmt.Errorf("got %s", seen)
		}
		return nil
	})
	both("from the pod here", sh(c, "here", many))
	both("from the pod there", sh(c, "there", many))
	both("from the second machine", machine.Run("busybox", "sh", "-c", strings.ReplaceAll(many, "wget", "busybox wget")))
	contains(t, "the API from there", sh(c, "there", "tool get -ca /var/run/secrets/kubernetes.io/serviceaccount/ca.crt https://$KUBERNETES_SERVICE_HOST/version"), "200", "v1.37")
}
