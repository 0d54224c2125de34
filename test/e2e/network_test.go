package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestNetwork: the ways into a pod beside a plain cluster IP.
func TestNetwork(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t)
	service := func(name, spec string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {%s}\n---\n", name, spec)
	}
	c.Apply(onePod("host-network", image, "hostNetwork: true", `args: [serve, -http, ":18080"]`) +
		onePod("host-port", image, "", `ports: [{containerPort: 8080, hostPort: 18090}]`) +
		onePod("one", image, "", `args: [serve, -udp, ":8081"]`) + onePod("two", image, "", `args: [serve, -udp, ":8081"]`))
	for _, name := range []string{"one", "two"} {
		c.Kubectl("label", "pod", name, "set=both")
	}
	c.Apply(service("node-port", "type: NodePort, selector: {set: both}, ports: [{port: 80, targetPort: 8080}]") +
		service("udp", "selector: {set: both}, ports: [{port: 81, targetPort: 8081, protocol: UDP}]") +
		service("affine", "sessionAffinity: ClientIP, selector: {set: both}, ports: [{port: 80, targetPort: 8080}]") +
		service("self", "selector: {app: one}, ports: [{port: 80, targetPort: 8080}]"))
	ready(c, "host-network", "host-port", "one", "two")
	node := pod(c, "one").Status.HostIP
	answers := func(url, want string) {
		t.Helper()
		c.Eventually(30*time.Second, url+" answers", func() error {
			got, err := get(url)
			if err == nil && !strings.Contains(got, want) {
				err = fmt.Errorf("got %q, want %q", got, want)
			}
			return err
		})
	}
	if p := pod(c, "host-network"); p.Status.PodIP != node {
		t.Errorf("a pod in the host's network has the address %s, want %s", p.Status.PodIP, node)
	}
	answers("http://"+node+":18080/", "answers")
	answers("http://"+node+":18090/", "host-port answers")
	answers("http://"+node+":"+c.Kubectl("get", "service", "node-port", "-o", "jsonpath={.spec.ports[0].nodePort}")+"/", "answers")
	answers("http://"+clusterIP(c, "self")+"/", "one answers")
	contains(t, "a pod asks itself through its service", sh(c, "one", "tool get http://"+clusterIP(c, "self")+"/"), "200", "one answers")

	t.Run("UDP", func(t *testing.T) {
		c := c.In(t)
		answersUDP(c, net.JoinHostPort(clusterIP(c, "udp"), "81"))
	})
	t.Run("session affinity", func(t *testing.T) {
		c := c.In(t)
		url := "http://" + clusterIP(c, "affine") + "/"
		answers(url, "answers")
		seen := map[string]int{}
		for range 20 {
			got, err := get(url)
			if err != nil {
				t.Fatal(err)
			}
			seen[strings.Fields(got)[0]]++
		}
		if len(seen) != 1 {
			t.Errorf("one client was led to %v", seen)
		}
	})
}

// TestImages: images come from an archive as well as from a registry.
func TestImages(t *testing.T) {
	c := harness.Start(t)
	archive := harness.Archive(t, "example.test/own:1", harness.Tool(t))
	contains(t, "import", c.Setpoint("image", "import", archive), "imported example.test/own:1")
	contains(t, "list", c.Setpoint("image", "list"), "example.test/own:1", "setpoint.local/demo:1")
	c.Apply(onePod("own", "example.test/own:1", "", "imagePullPolicy: Never"))
	ready(c, "own")
	c.Kubectl("delete", "pod", "own")
	c.Setpoint("image", "remove", "example.test/own:1")
	if out := c.Setpoint("image", "list"); strings.Contains(out, "example.test/own") {
		t.Errorf("a removed image is listed:\n%s", out)
	}
}

// answersUDP waits until a datagram comes back.
func answersUDP(c *harness.Cluster, addr string) {
	c.T.Helper()
	c.Eventually(time.Minute, "UDP to "+addr+" comes back", func() error {
		conn, err := net.Dial("udp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := conn.Write([]byte("hello")); err != nil {
			return err
		}
		buf := make([]byte, 100)
		n, err := conn.Read(buf)
		if err == nil && !strings.HasSuffix(string(buf[:n]), "got hello") {
			err = fmt.Errorf("got %q", buf[:n])
		}
		return err
	})
}
