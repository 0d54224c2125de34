package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// answersFrom waits until a URL answers with what is wanted.
func answersFrom(c *harness.Cluster, url, want string) {
	c.T.Helper()
	c.Eventually(time.Minute, url+" answers", func() error {
		got, err := get(url)
		if err == nil && !strings.Contains(got, want) {
			err = fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
}

func balanced(name, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {type: LoadBalancer, selector: {app: web}, %s}\n---\n", name, spec)
}

// ingress waits until a service has an address.
func ingress(c *harness.Cluster, name string) (ip string) {
	c.T.Helper()
	c.Eventually(time.Minute, name+" has an address", func() error {
		if ip = c.Kubectl("get", "service", name, "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}"); ip == "" {
			return fmt.Errorf("none")
		}
		return nil
	})
	return ip
}

// TestLoadBalancer: services are reached at the node's address; one that wants
// a port that is taken says who has it; and nothing is left of one that goes.
func TestLoadBalancer(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t)
	c.Apply(onePod("web", image, "", "") + onePod("asker", image, "", "") +
		balanced("front", "ports: [{port: 8888, targetPort: 8080}]") +
		balanced("local", "externalTrafficPolicy: Local, ports: [{port: 8889, targetPort: 8080}]") +
		balanced("closed", "loadBalancerSourceRanges: [198.51.100.0/24], ports: [{port: 8890, targetPort: 8080}]") +
		balanced("another", "loadBalancerClass: example.test/other, ports: [{port: 8891, targetPort: 8080}]"))
	ready(c, "web", "asker")
	node := pod(c, "web").Status.HostIP
	for _, name := range []string{"front", "local", "closed"} {
		if got := ingress(c, name); got != node {
			t.Errorf("%s is at %s, want the node's address %s", name, got, node)
		}
	}
	answersFrom(c, "http://"+node+":8888/", "web answers")
	answersFrom(c, "http://"+node+":8889/", "web answers")
	contains(t, "from a pod", sh(c, "asker", "tool get http://"+node+":8889/"), "web answers")
	answersFrom(c, "http://"+node+":8890/", "web answers") // the node itself may
	if out, err := c.Try("exec", "asker", "--", "timeout", "2", "tool", "get", "http://"+node+":8890/"); err == nil {
		t.Errorf("a pod is not among the sources, but: %s", out)
	}
	port := c.Kubectl("get", "service", "local", "-o", "jsonpath={.spec.healthCheckNodePort}")
	answersFrom(c, "http://"+node+":"+port+"/healthz", `"localEndpoints":1`)

	c.Apply(balanced("late", "ports: [{port: 8888, targetPort: 8080}]"))
	c.Eventually(time.Minute, "the conflict is told", func() error {
		events, status := c.Kubectl("events", "--for", "service/late"), c.Setpoint("status")
		for _, out := range []string{events, status} {
			if !strings.Contains(out, "port 8888/TCP at "+node) {
				return fmt.Errorf("got %s", out)
			}
		}
		return nil
	})
	c.Kubectl("delete", "service", "front")
	if got := ingress(c, "late"); got != node {
		t.Errorf("the next in turn is at %s, want %s", got, node)
	}
	c.Kubectl("patch", "service", "late", "--type=merge", "-p", `{"spec":{"type":"ClusterIP","allocateLoadBalancerNodePorts":null,"externalTrafficPolicy":null}}`)
	c.Eventually(time.Minute, "nothing answers any more", func() error {
		if out := c.Kubectl("get", "service", "late", "-o", "jsonpath={.status.loadBalancer}{.metadata.finalizers}"); strings.Contains(out, "ip") || strings.Contains(out, "cleanup") {
			return fmt.Errorf("left: %s", out)
		}
		if got, err := get("http://" + node + ":8888/"); err == nil {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
	if out := c.Kubectl("get", "service", "another", "-o", "jsonpath={.status.loadBalancer.ingress}{.metadata.finalizers}"); out != "" {
		t.Errorf("a service of another class has %s", out)
	}
	c.Kubectl("delete", "pod", "web")
	c.Eventually(time.Minute, "the health check says so", func() error {
		res, err := http.Get("http://" + node + ":" + port + "/healthz")
		if err != nil {
			return err
		}
		res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	})
}

// TestLoadBalancerPool: one of two machines answers for an address of a pool,
// to whoever is on the network, and both lead it on.
func TestLoadBalancerPool(t *testing.T) {
	machine := harness.StartMachine(t)
	pool := harness.HereIP[:strings.LastIndex(harness.HereIP, ".")+1] + "240"
	c := harness.Start(t, "--listen", harness.HereIP+":0", "--node-ip", harness.HereIP, "--node-name", "first", "--load-balancer-pool", pool)
	server := c.Kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	archive := harness.Archive(t, "example.test/tool:1", harness.Tool(t))
	c.Setpoint("image", "import", archive)
	c.Apply(onePod("web", "example.test/tool:1", "", "") + balanced("front", "ports: [{port: 80, targetPort: 8080}]"))
	ready(c, "web")
	if got := ingress(c, "front"); got != pool {
		t.Errorf("the service is at %s, want %s", got, pool)
	}
	// The other machine is no node yet: it must find the address by ARP.
	c.Eventually(time.Minute, "a neighbour reaches it", func() error {
		out := machine.Run("busybox", "sh", "-c", "timeout 3 busybox wget -q -O - http://"+pool+"/ || true")
		if !strings.Contains(out, "web answers") {
			return fmt.Errorf("got %q", out)
		}
		return nil
	})
	dir := agentDir(t, machine)
	machine.Start("--data-dir", dir, "agent", "--server", server, "--token", joinToken(t, c), "--node-ip", harness.ThereIP, "--node-name", "second")
	c.Await("condition=Ready", "node/second")
	answersFrom(c, "http://"+pool+"/", "web answers")
	// Names are served on the second machine too, by a server of its own.
	machine.Run(harness.Binary(t), "--data-dir", dir, "image", "import", archive)
	c.Apply(onePod("there", "example.test/tool:1", "nodeName: second", ""))
	ready(c, "there")
	c.Eventually(time.Minute, "a name from there", func() error {
		out, err := c.Try("exec", "there", "--", "tool", "get", "http://front/")
		if err != nil || !strings.Contains(out, "web answers") {
			return fmt.Errorf("%s: %v", out, err)
		}
		return nil
	})
	contains(t, "the servers", c.Kubectl("get", "endpointslices", "-n", "kube-system", "-l", "kubernetes.io/service-name=kube-dns", "-o", "jsonpath={.items[*].endpoints[*].hints.forNodes[*].name}"), "first", "second")
}

// TestNetworkPolicy: what a policy does not let in does not come in; names are
// answered all the same.
func TestNetworkPolicy(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t)
	c.Apply(onePod("web", image, "", `readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1, timeoutSeconds: 20}`) + onePod("friend", image, "", "") + onePod("stranger", image, "", "") +
		"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}\n")
	ready(c, "web", "friend", "stranger")
	reach := func(from, url string, want bool) {
		t.Helper()
		c.Eventually(time.Minute, fmt.Sprintf("%s reaches %s: %t", from, url, want), func() error {
			out, err := c.Try("exec", from, "--", "timeout", "3", "tool", "get", url)
			if (err == nil) != want {
				return fmt.Errorf("%s: %v", out, err)
			}
			return nil
		})
	}
	reach("stranger", "http://web/", true)
	c.Apply(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends}
spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: 8080}]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: stay}
spec: {podSelector: {matchLabels: {app: friend}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]}
`)
	reach("stranger", "http://web/", false)
	reach("friend", "http://web/", true) // by name, though it may go nowhere else
	reach("friend", "http://"+pod(c, "stranger").Status.PodIP+":8080/", false)
	if p := pod(c, "web"); len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready {
		t.Error("the node's probes do not come in")
	}
	c.Kill()
	c.Up()
	reach("stranger", "http://web/", false)
	c.Kubectl("delete", "networkpolicy", "friends")
	reach("stranger", "http://web/", true)
}
