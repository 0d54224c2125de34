package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// webManifest is a Deployment and a Service of the demo server.
func webManifest(name, image string, replicas int, extra ...string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: web
        image: %[2]s
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 1, timeoutSeconds: 20}
        resources: {requests: {cpu: 10m}}
%[4]s
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  selector: {app: %[1]s}
  ports: [{port: 80, targetPort: http}]
`, name, image, replicas, strings.Join(extra, "\n"))
}

func pods(c *harness.Cluster, selector string) []corev1.Pod {
	c.T.Helper()
	var list corev1.PodList
	decode(c, &list, "get", "pods", "-l", selector, "-o", "json")
	return list.Items
}

// decode runs a kubectl that prints JSON.
func decode(c *harness.Cluster, into any, args ...string) {
	c.T.Helper()
	out := c.Kubectl(args...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		c.T.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// containerIDs of running pods, by pod name.
func containerIDs(c *harness.Cluster, selector string) map[string]string {
	c.T.Helper()
	ids := map[string]string{}
	for _, p := range pods(c, selector) {
		for _, s := range p.Status.ContainerStatuses {
			ids[p.Name] += s.ContainerID
		}
	}
	return ids
}

func clusterIP(c *harness.Cluster, name string) string {
	c.T.Helper()
	return c.Kubectl("get", "service", name, "-o", "jsonpath={.spec.clusterIP}")
}

// httpClient makes a new connection for each request, so that each is led to
// an endpoint anew.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

func get(url string) (string, error) {
	res, err := httpClient.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return string(body), err
}

// contains fails the test unless out holds every one of wants.
func contains(t testing.TB, what, out string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("%s: want %q in:\n%s", what, want, out)
		}
	}
}

// fails runs a kubectl that must fail, and returns what it said.
func fails(c *harness.Cluster, stdin string, args ...string) string {
	c.T.Helper()
	out, err := c.Input(stdin, args...)
	if err == nil {
		c.T.Errorf("kubectl %s: succeeded, want a refusal:\n%s", strings.Join(args, " "), out)
	}
	return out
}

// load asks url steadily until stop is called, which returns how many were
// answered and the failures.
func load(url string, workers int) (stop func() (answered int, failures []error)) {
	done := make(chan struct{})
	type result struct {
		answered int
		failures []error
	}
	results := make(chan result, workers)
	for range workers {
		go func() {
			var r result
			for {
				select {
				case <-done:
					results <- r
					return
				default:
				}
				if _, err := get(url); err != nil {
					r.failures = append(r.failures, fmt.Errorf("at %s: %w", time.Now().Format("15:04:05.000"), err))
				} else {
					r.answered++
				}
				time.Sleep(5 * time.Millisecond) // a steady rate, not a flood
			}
		}()
	}
	return func() (int, []error) {
		close(done)
		var all result
		for range workers {
			r := <-results
			all.answered += r.answered
			all.failures = append(all.failures, r.failures...)
		}
		return all.answered, all.failures
	}
}
