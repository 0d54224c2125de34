package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestKubectl is a person's day: one Deployment, one Service, and every
// kubectl command on them.
func TestKubectl(t *testing.T) {
	registry := harness.StartRegistry(t)
	v1 := registry.Push("web:1", harness.Web(t, "v1"))
	v2 := registry.Push("web:2", harness.Web(t, "v2"))
	c := harness.Start(t)
	c.Apply(webManifest("web", v1, 3))
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	c.Kubectl("wait", "pod", "-l", "app=web", "--for=condition=Ready", "--timeout=300s")
	all := pods(c, "app=web")
	if len(all) != 3 {
		t.Fatalf("%d pods, want 3", len(all))
	}
	pod := all[0].Name

	t.Run("service", func(t *testing.T) { testService(t, c) })
	t.Run("get", func(t *testing.T) {
		contains(t, "get deployment", c.Kubectl("get", "deployment", "web"), "NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "3/3")
		contains(t, "get pods wide", c.Kubectl("get", "pods", "-o", "wide"), "STATUS", "RESTARTS", "IP", "NODE", "NOMINATED NODE", "Running", "1/1", all[0].Status.PodIP)
		contains(t, "get all", c.Kubectl("get", "all"), "pod/"+pod, "service/web", "deployment.apps/web", "replicaset.apps/web-")
		contains(t, "get nodes", c.Kubectl("get", "nodes"), "Ready", "v1.37")
		contains(t, "get yaml", c.Kubectl("get", "pod", pod, "-o", "yaml"), "apiVersion: v1", "kind: Pod", "qosClass: Burstable")
		contains(t, "get service", c.Kubectl("get", "service", "web"), "ClusterIP", "80/TCP")
		contains(t, "get endpointslices", c.Kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=web"), "IPv4", "8080", all[0].Status.PodIP)
		contains(t, "get by field", c.Kubectl("get", "pods", "--field-selector", "metadata.name="+pod, "-o", "name"), "pod/"+pod)
		contains(t, "get namespaces", c.Kubectl("get", "ns"), "default", "kube-system", "kube-public", "kube-node-lease")
	})
	t.Run("describe", func(t *testing.T) {
		contains(t, "describe pod", c.Kubectl("describe", "pod", pod), "Node:", "Status:", "Running", "Scheduled", "Pulled", "Started", "Successfully assigned default/"+pod)
		contains(t, "describe deployment", c.Kubectl("describe", "deployment", "web"), "RollingUpdate", "ScalingReplicaSet", "MinimumReplicasAvailable", "NewReplicaSetAvailable")
		contains(t, "describe service", c.Kubectl("describe", "service", "web"), "Endpoints:", ":8080")
		contains(t, "describe node", c.Kubectl("describe", "node"), "KubeletReady", "Allocated resources", "containerd://", "v1.37")
	})
	t.Run("logs", func(t *testing.T) { testLogs(t, c) })
	t.Run("exec", func(t *testing.T) {
		contains(t, "exec", c.Kubectl("exec", pod, "--", "hostname"), pod)
		out, err := c.Input("from standard input", "exec", "-i", pod, "--", "cat")
		if err != nil || !strings.Contains(out, "from standard input") {
			t.Errorf("exec -i: %v, %q", err, out)
		}
		if out, err := c.Try("exec", pod, "--", "sh", "-c", "exit 7"); err == nil || !strings.Contains(out, "exit code 7") {
			t.Errorf("exec of what exits 7: %v, %q", err, out)
		}
		contains(t, "exec without a container", fails(c, "", "exec", pod, "-c", "nope", "--", "true"), "container nope is not valid for pod "+pod)
	})
	t.Run("attach", func(t *testing.T) { testAttach(t, c, v1) })
	t.Run("cp", func(t *testing.T) {
		dir := t.TempDir()
		content := strings.Repeat("setpoint\n", 10000)
		if err := os.WriteFile(filepath.Join(dir, "in"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Kubectl("cp", filepath.Join(dir, "in"), pod+":/tmp/file")
		c.Kubectl("cp", pod+":/tmp/file", filepath.Join(dir, "out"))
		if got, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || string(got) != content {
			t.Errorf("copied there and back: %v, %d bytes, want %d", err, len(got), len(content))
		}
	})
	t.Run("port-forward", func(t *testing.T) { testPortForward(t, c, "pod/"+pod, "deployment/web", "service/web") })
	t.Run("label, annotate, patch", func(t *testing.T) {
		c.Kubectl("label", "pod", pod, "tier=front")
		contains(t, "by label", c.Kubectl("get", "pods", "-l", "tier=front", "-o", "name"), "pod/"+pod)
		c.Kubectl("label", "pod", pod, "tier-")
		c.Kubectl("annotate", "deployment", "web", "note=kept")
		contains(t, "annotation", c.Kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.annotations.note}"), "kept")
		c.Kubectl("patch", "deployment", "web", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"1"}]}]}}}}`)
		c.Kubectl("patch", "deployment", "web", "--type=json", "-p", `[{"op":"replace","path":"/spec/minReadySeconds","value":1}]`)
		c.Kubectl("patch", "deployment", "web", "--type=merge", "-p", `{"spec":{"minReadySeconds":0}}`)
		c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
		contains(t, "patched", c.Kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].env}{.spec.template.spec.containers[*].image}"), `"A"`, v1)
	})
	t.Run("rollout", func(t *testing.T) { testRollout(t, c, v2) })
	t.Run("scale", func(t *testing.T) {
		c.Kubectl("scale", "deployment", "web", "--replicas=5")
		c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
		living := 0 // those of the rollout before may still be ending
		for _, p := range pods(c, "app=web") {
			if p.DeletionTimestamp == nil {
				living++
			}
		}
		if living != 5 {
			t.Errorf("%d pods after scale to 5", living)
		}
		contains(t, "scale with a wrong precondition", fails(c, "", "scale", "deployment", "web", "--current-replicas=4", "--replicas=2"), "Expected replicas to be 4, was 5")
		c.Kubectl("scale", "deployment", "web", "--replicas=1")
		c.Eventually(time.Minute, "scale down to one", func() error {
			if n := len(pods(c, "app=web")); n != 1 {
				return fmt.Errorf("%d pods", n)
			}
			return nil
		})
	})
	t.Run("events", func(t *testing.T) {
		contains(t, "events", c.Kubectl("events"), "Scheduled", "Started", "ScalingReplicaSet")
		contains(t, "get events", c.Kubectl("get", "events"), "LAST SEEN", "REASON", "SuccessfulCreate")
	})
	t.Run("delete", func(t *testing.T) {
		c.Kubectl("delete", "deployment/web", "service/web", "--timeout=300s")
		c.Kubectl("wait", "pod", "-l", "app=web", "--for=delete", "--timeout=300s")
		if out := c.Kubectl("get", "all", "-l", "app=web", "-o", "name"); strings.TrimSpace(out) != "" {
			t.Errorf("left after delete:\n%s", out)
		}
		c.Kubectl("create", "namespace", "gone")
		c.Kubectl("create", "configmap", "x", "-n", "gone", "--from-literal=a=b")
		c.Kubectl("delete", "namespace", "gone", "--timeout=300s")
	})
}

// testService: the cluster IP answers from the host and from a pod, spread
// over all three.
func testService(t *testing.T, c *harness.Cluster) {
	url := "http://" + clusterIP(c, "web") + "/"
	want := map[string]bool{}
	for _, p := range pods(c, "app=web") {
		want[p.Name] = true
	}
	seen := map[string]int{}
	c.Eventually(30*time.Second, "the service answers from the host by all three", func() error {
		for range 20 {
			who, err := get(url)
			if err != nil {
				return err
			}
			for name := range want {
				if strings.Contains(who, name) {
					seen[name]++
				}
			}
		}
		if len(seen) < 3 {
			return fmt.Errorf("answered by %v", seen)
		}
		return nil
	})
	script := fmt.Sprintf("for i in $(seq 40); do timeout 30 wget -q -O - %s || exit 1; done", url)
	out := c.Kubectl("exec", "deployment/web", "--", "sh", "-c", script)
	for name := range want {
		if !strings.Contains(out, name) {
			t.Errorf("from a pod: %s never answered:\n%s", name, out)
		}
	}
	// What nothing serves is refused at once, and does not leave the machine.
	if _, err := get("http://" + clusterIP(c, "web") + ":81/"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a port that the service has not: %v, want connection refused", err)
	}
}

func testLogs(t *testing.T, c *harness.Cluster) {
	c.Apply(`
apiVersion: v1
kind: Pod
metadata: {name: talk}
spec:
  containers:
  - name: a
    image: ` + strings.TrimSpace(c.Kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")) + `
    command: [sh, -c, "i=0; while true; do echo line $i; i=$((i+1)); sleep 0.2; done"]
`)
	c.Await("condition=Ready", "pod/talk")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	follow := c.Command(ctx, "logs", "-f", "talk")
	out, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := 0
	for next < 10 && lines.Scan() {
		if want := fmt.Sprintf("line %d", next); lines.Text() != want {
			t.Fatalf("logs -f gave %q, want %q", lines.Text(), want)
		}
		next++
	}
	if next < 10 {
		t.Errorf("logs -f ended after %d lines", next)
	}
	cancel()
	follow.Wait()
	if out := c.Kubectl("logs", "talk", "--tail=2"); strings.Count(out, "\n") != 2 {
		t.Errorf("logs --tail=2 gave:\n%s", out)
	}
	contains(t, "logs --timestamps", c.Kubectl("logs", "talk", "--timestamps", "--tail=1"), time.Now().UTC().Format("2006-01-02T"))
	if out := c.Kubectl("logs", "talk", "--since=1s"); strings.Contains(out, "line 0\n") {
		t.Errorf("logs --since=1s gave the first line:\n%s", out)
	}
	contains(t, "logs of a container that is not there", fails(c, "", "logs", "talk", "-c", "b"), "container b is not valid for pod talk")
	c.Kubectl("delete", "pod", "talk", "--grace-period=1")
}

func testAttach(t *testing.T, c *harness.Cluster, image string) {
	c.Apply(`
apiVersion: v1
kind: Pod
metadata: {name: echo}
spec:
  containers:
  - {name: a, image: ` + image + `, command: [sh, -c, "while read line; do echo got $line; done"], stdin: true}
`)
	c.Await("condition=Ready", "pod/echo")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	attach := c.Command(ctx, "attach", "-i", "echo")
	in, err := attach.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := attach.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := attach.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "hello\n")
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "got hello" {
	}
	if lines.Text() != "got hello" {
		t.Errorf("attach: the container never answered")
	}
	cancel()
	attach.Wait()
	c.Kubectl("delete", "pod", "echo", "--grace-period=1")
}

func testPortForward(t *testing.T, c *harness.Cluster, targets ...string) {
	for _, target := range targets {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		port := "8080"
		if strings.HasPrefix(target, "service/") {
			port = "80"
		}
		cmd := c.Command(ctx, "port-forward", target, ":"+port)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n') // Forwarding from 127.0.0.1:PORT -> 8080
		addr := strings.TrimPrefix(line, "Forwarding from ")
		addr, _, _ = strings.Cut(addr, " ")
		if _, _, bad := net.SplitHostPort(addr); err != nil || bad != nil {
			t.Errorf("port-forward %s said %q (%v)", target, line, err)
		} else {
			for range 3 {
				if body, err := get("http://" + addr + "/"); err != nil || !strings.Contains(body, "web-") {
					t.Errorf("through port-forward %s: %q, %v", target, body, err)
				}
			}
		}
		cancel()
		cmd.Wait()
	}
}

func testRollout(t *testing.T, c *harness.Cluster, v2 string) {
	url := "http://" + clusterIP(c, "web") + "/"
	version := func(want string) {
		t.Helper()
		c.Eventually(30*time.Second, "the service answers as "+want, func() error {
			got, err := get(url)
			if err == nil && !strings.Contains(got, want) {
				err = fmt.Errorf("%s", got)
			}
			return err
		})
	}
	c.Kubectl("set", "image", "deployment/web", "web="+v2)
	contains(t, "rollout status", c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s"), "successfully rolled out")
	version("v2")
	contains(t, "rollout history", c.Kubectl("rollout", "history", "deployment/web"), "REVISION", "1", "2")
	contains(t, "rollout history of one", c.Kubectl("rollout", "history", "deployment/web", "--revision=1"), "Image:")
	c.Kubectl("rollout", "undo", "deployment/web")
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	version("v1")

	c.Kubectl("rollout", "pause", "deployment/web")
	before := c.Kubectl("get", "rs", "-l", "app=web", "-o", "name")
	c.Kubectl("set", "env", "deployment/web", "PAUSED=yes")
	c.Eventually(30*time.Second, "a paused Deployment is observed", func() error {
		out := c.Kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.generation} {.status.observedGeneration}")
		if parts := strings.Fields(out); len(parts) != 2 || parts[0] != parts[1] {
			return fmt.Errorf("generation and observedGeneration %s", out)
		}
		return nil
	})
	if after := c.Kubectl("get", "rs", "-l", "app=web", "-o", "name"); after != before {
		t.Errorf("a paused Deployment rolled out:\n%s\n%s", before, after)
	}
	c.Kubectl("rollout", "resume", "deployment/web")
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	names := map[string]bool{}
	for _, p := range pods(c, "app=web") {
		names[p.Name] = true
	}
	c.Kubectl("rollout", "restart", "deployment/web")
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	for _, p := range pods(c, "app=web") {
		if names[p.Name] && p.DeletionTimestamp == nil {
			t.Errorf("pod %s outlived rollout restart", p.Name)
		}
	}
}
