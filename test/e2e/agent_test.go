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

// agentDir makes a data folder for an agent on a machine; what runs there is
// taken down when the test ends.
func agentDir(t *testing.T, machine *harness.Machine) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		machine.Run(harness.Binary(t), "--data-dir", dir, "down", "--purge")
		os.RemoveAll(dir)
	})
	return dir
}

func joinToken(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(c.Dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

// twoNodes starts a cluster with a node here, "first", and one on a second
// machine, "second", which keeps its data in dir. Both have the image
// example.test/tool:1.
func twoNodes(t *testing.T) (c *harness.Cluster, machine *harness.Machine, dir string) {
	t.Helper()
	machine = harness.StartMachine(t)
	c = harness.Start(t, "--listen", harness.HereIP+":0", "--node-ip", harness.HereIP, "--node-name", "first")
	server := c.Kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	dir = agentDir(t, machine)
	machine.Start("--data-dir", dir, "agent", "--server", server, "--token", joinToken(t, c), "--node-ip", harness.ThereIP, "--node-name", "second")
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
	return c, machine, dir
}

// TestAgent: a second machine joins, runs pods, and services lead from either
// machine, and from pods, to the pods of both.
func TestAgent(t *testing.T) {
	c, machine, _ := twoNodes(t)
	c.Apply(onePod("here", "example.test/tool:1", "nodeName: first", listens) + onePod("there", "example.test/tool:1", "nodeName: second", listens))
	for _, name := range []string{"here", "there"} {
		c.Kubectl("label", "pod", name, "set=both")
	}
	c.Apply("apiVersion: v1\nkind: Service\nmetadata: {name: both}\nspec: {selector: {set: both}, ports: [{port: 80, targetPort: 8080}]}\n")
	ready(c, "here", "there")

	contains(t, "pod to pod, there", sh(c, "here", "tool get http://"+pod(c, "there").Status.PodIP+":8080/"), "there answers "+pod(c, "here").Status.PodIP+":")
	contains(t, "pod to pod, back", sh(c, "there", "tool get http://"+pod(c, "here").Status.PodIP+":8080/"), "here answers "+pod(c, "there").Status.PodIP+":")
	url := "http://" + clusterIP(c, "both") + "/"
	many := "for i in $(seq 30); do timeout 30 wget -q -O - " + url + " || exit 1; done"
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

// TestAgentOfServer: every part of a cluster alone. An agent that was killed
// takes over what runs, without being told again whose it is; taken down while
// it runs, it leaves nothing.
func TestAgentOfServer(t *testing.T) {
	machine := harness.StartMachine(t)
	c := harness.StartServer(t, "--listen", harness.HereIP+":6443") // the same when it starts again
	controllers, scheduler := c.Part("controllers"), c.Part("scheduler")
	server := c.Kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	dir := agentDir(t, machine)
	agent := machine.Start("--data-dir", dir, "agent", "--server", server, "--token", joinToken(t, c), "--node-ip", harness.ThereIP, "--node-name", "only")
	agent.WaitFor("this machine is node only of " + server)
	c.Await("condition=Ready", "node/only")
	machine.Run(harness.Binary(t), "--data-dir", dir, "image", "import", harness.Archive(t, "example.test/tool:1", harness.Tool(t)))
	c.Apply(onePod("alone", "example.test/tool:1", "", ""))
	ready(c, "alone")
	contains(t, "exec over there", sh(c, "alone", "echo $HOSTNAME"), "alone")
	contains(t, "status there", machine.Run(harness.Binary(t), "--data-dir", dir, "status"), "node only of "+server, fmt.Sprintf("process %d", agent.PID()))

	before := containerIDs(c, "")
	// What a stream does not go through may die; what it does may not, and the
	// other end is told.
	talk := func() *harness.Terminal {
		t.Helper()
		term := c.Terminal(24, 80, "exec", "-it", "alone", "--", "sh")
		term.Type("echo be$(echo gun)\n")
		term.Expect("begun")
		return term
	}
	term := talk()
	controllers.Kill()
	scheduler.Kill()
	term.Type("echo still$(echo here)\n")
	term.Expect("stillhere")
	c.Kill()
	if err := term.Wait(); err == nil {
		t.Errorf("an exec whose server was killed ends as if all were well:\n%s", term.Said())
	}
	c.Up()
	c.Part("controllers")
	c.Part("scheduler")
	c.Eventually(time.Minute, "the server reaches the node again", func() error {
		_, err := c.Try("exec", "alone", "--", "true")
		return err
	})
	term = talk()
	agent.Kill()
	if err := term.Wait(); err == nil {
		t.Errorf("an exec whose agent was killed ends as if all were well:\n%s", term.Said())
	}
	agent = machine.Start("--data-dir", dir, "agent")
	agent.WaitFor("this machine is node only of " + server)
	contains(t, "exec after a restart", sh(c, "alone", "echo $HOSTNAME"), "alone")
	if after := containerIDs(c, ""); !maps.Equal(before, after) {
		t.Errorf("containers changed over a restart of the agent: %v, then %v", before, after)
	}
	machine.Run(harness.Binary(t), "--data-dir", dir, "down")
	if code := agent.Wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	for _, what := range machine.Left(func() []string { return left(dir) }) {
		t.Error(what)
	}
	if out := c.Setpoint("status"); strings.Contains(out, "silent") {
		t.Errorf("an agent that said goodbye is waited for:\n%s", out)
	}
}
