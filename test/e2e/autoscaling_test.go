package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// scaled is a Deployment whose pods request 100m, and an autoscaler that keeps
// them at half of it and shrinks at once. pod and container are the rest of
// theirs, in flow style.
func scaled(name, image, annotations, container string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {%[3]s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: app, image: %[2]q, resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}%[4]s}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: %[1]s}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  minReplicas: 1
  maxReplicas: 9
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
`, name, image, annotations, container)
}

// hasReplicas waits until a Deployment is to have so many replicas, and has.
func hasReplicas(c *harness.Cluster, name string, want int) {
	c.T.Helper()
	c.Eventually(3*time.Minute, fmt.Sprintf("%s has %d replicas", name, want), func() error {
		out := c.Kubectl("get", "deployment", name, "-o", "jsonpath={.spec.replicas} {.status.readyReplicas}")
		if out != fmt.Sprintf("%d %d", want, want) {
			return fmt.Errorf("spec and ready: %s\n%s", out, c.Kubectl("get", "hpa", name))
		}
		return nil
	})
}

// top reads the CPU that `kubectl top` shows, in thousandths, by the name in a
// column.
func top(c *harness.Cluster, column int, args ...string) (map[string]int, error) {
	out, err := c.Try(append([]string{"top"}, append(args, "--no-headers")...)...)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	used := map[string]int{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) <= column+1 {
			return nil, fmt.Errorf("cannot read %q", line)
		}
		n, err := strconv.Atoi(strings.TrimSuffix(f[column+1], "m"))
		if err != nil {
			return nil, fmt.Errorf("cannot read %q", line)
		}
		used[f[column]] = n
	}
	return used, nil
}

// TestAutoscaling: a container that burns CPU is seen to, gets help, and gives
// it back.
func TestAutoscaling(t *testing.T) {
	image := harness.StartRegistry(t).Push("busybox:1", harness.Busybox(t))
	c := harness.Start(t)
	c.Apply(scaled("burner", image, "", `, command: [/bin/sh, -c, 'while true; do test -e /burn || sleep 1; done']`))
	hasReplicas(c, "burner", 1)
	name := pods(c, "app=burner")[0].Name
	// shows waits until the pod is shown with as much CPU as wanted.
	shows := func(what string, wanted func(int) bool) {
		t.Helper()
		c.Eventually(time.Minute, what, func() error {
			used, err := top(c, 0, "pods")
			if n, ok := used[name]; err == nil && (!ok || !wanted(n)) {
				err = fmt.Errorf("top shows %v", used)
			}
			return err
		})
	}
	shows("the pod idles", func(n int) bool { return n < 40 })
	if used, err := top(c, 1, "pods", "--containers"); err != nil || len(used) != 1 {
		t.Errorf("containers: %v, %v", used, err)
	}
	if used, err := top(c, 0, "nodes"); err != nil || len(used) != 1 {
		t.Errorf("nodes: %v, %v", used, err)
	}
	node := strings.TrimSpace(c.Kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	var summary statsv1alpha1.Summary
	decode(c, &summary, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/stats/summary")
	found := false
	for _, p := range summary.Pods {
		if p.PodRef.Name == name {
			found = len(p.Containers) == 1 && *p.Containers[0].Memory.WorkingSetBytes > 0 && p.Network != nil
		}
	}
	if !found || *summary.Node.CPU.UsageCoreNanoSeconds == 0 || summary.Node.Fs == nil || *summary.Node.Memory.WorkingSetBytes < 1<<20 {
		t.Errorf("summary: node %+v, pods %+v", summary.Node, summary.Pods)
	}
	contains(t, "resources", c.Kubectl("get", "--raw", "/api/v1/nodes/"+node+"/proxy/metrics/resource"),
		`container_cpu_usage_seconds_total{container="app",namespace="default",pod="`+name+`"}`, "node_memory_working_set_bytes ")

	testScraper(c, node)

	c.Kubectl("exec", name, "--", "touch", "/burn")
	hasReplicas(c, "burner", 2)
	shows("the pod burns", func(n int) bool { return n >= 60 })
	c.Shows([]string{"New size: 2; reason: cpu resource utilization (percentage of request) above target", "ScalingActive   True    ValidMetricFound"},
		"describe", "hpa", "burner")
	c.Kubectl("exec", name, "--", "rm", "/burn")
	hasReplicas(c, "burner", 1)
}

// testScraper: a metrics server of somebody's own, known by its token, reads
// what its role says from the kubelet, and no more.
func testScraper(c *harness.Cluster, node string) {
	c.T.Helper()
	c.Kubectl("create", "serviceaccount", "scraper")
	c.Kubectl("create", "clusterrole", "scraper", "--verb=get", "--resource=nodes/metrics")
	c.Kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=scraper", "--serviceaccount=default:scraper")
	token := strings.TrimSpace(c.Kubectl("create", "token", "scraper"))
	ip := c.Kubectl("get", "node", node, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: time.Minute}
	defer insecure.CloseIdleConnections()
	for path, want := range map[string]int{"/metrics/resource": 200, "/metrics/cadvisor": 200, "/stats/summary": 403, "/pods": 403} {
		c.Eventually(time.Minute, path+" with a token", func() error { // once the role is known
			req, err := http.NewRequest(http.MethodGet, "https://"+net.JoinHostPort(ip, "10250")+path, nil)
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := insecure.Do(req)
			if err != nil {
				return err
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				return fmt.Errorf("%s, want %d", resp.Status, want)
			}
			return nil
		})
	}
}

// TestSimulatedLoad: simulated pods use what their annotations say; a metrics
// server of the user's own takes the place of the built-in one.
func TestSimulatedLoad(t *testing.T) {
	t.Parallel()
	c := harness.Start(t, "--nodes", "sim=2")
	c.Apply(scaled("web", "sim:1", `setpoint.dev/sim-load: "140m", setpoint.dev/sim-memory: "64Mi"`, ""))
	hasReplicas(c, "web", 3)
	c.Eventually(time.Minute, "three share the load", func() error {
		used, err := top(c, 0, "pods")
		for _, n := range used {
			if n < 46 || n > 48 {
				err = fmt.Errorf("%v, want 47m each", used)
			}
		}
		if err == nil && len(used) != 3 {
			err = fmt.Errorf("of three pods there are %v", used)
		}
		return err
	})
	c.Eventually(time.Minute, "the autoscaler is content", func() error {
		if out := c.Kubectl("get", "hpa", "web"); !strings.Contains(out, "cpu: 47%/50%") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	contains(t, "memory", c.Kubectl("top", "pods", "--no-headers"), "64Mi")
	contains(t, "table", c.Kubectl("get", "pods.metrics.k8s.io"), "CPU", "MEMORY", "WINDOW", "web-")
	contains(t, "discovery", c.Kubectl("api-resources", "--api-group=metrics.k8s.io"), "PodMetrics", "NodeMetrics")

	c.Apply(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
   service: {namespace: kube-system, name: metrics-server}}
`)
	c.Eventually(time.Minute, "the user's own server is asked", func() error {
		if out, err := c.Try("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"); err == nil {
			return fmt.Errorf("answered with %s", out)
		}
		return nil
	})
	c.Kubectl("delete", "apiservice", "v1beta1.metrics.k8s.io")
	c.Eventually(time.Minute, "the built-in one is back", func() error {
		_, err := top(c, 0, "nodes")
		return err
	})
}
