package e2e

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// testStartupProbe: until it succeeds the liveness probe is not asked.
func testStartupProbe(c *harness.Cluster, image string) {
	c.Apply(onePod("starts", image, "", `
    startupProbe: {exec: {command: [test, -e, /tmp/started]}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 100},
    livenessProbe: {exec: {command: [test, -e, /tmp/started]}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 1}`))
	until(c, "starts", "runs and has not started", func(p corev1.Pod) error {
		if s := p.Status.ContainerStatuses; len(s) == 0 || s[0].State.Running == nil || s[0].Started == nil || *s[0].Started || s[0].Ready {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	sh(c, "starts", "touch /tmp/started")
	ready(c, "starts")
	if s := pod(c, "starts").Status.ContainerStatuses[0]; s.RestartCount != 0 || s.Started == nil || !*s.Started {
		c.T.Errorf("status %+v", s)
	}
}

// testReadinessProbe: a Service leads to a pod only while it is ready.
func testReadinessProbe(c *harness.Cluster, image string) {
	c.Apply(onePod("readiness", image, "", `readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 1}`) + `
apiVersion: v1
kind: Service
metadata: {name: readiness}
spec: {selector: {app: readiness}, ports: [{port: 80, targetPort: 8080}]}
`)
	ready(c, "readiness")
	url := "http://" + clusterIP(c, "readiness") + "/"
	serves := func(what string, want string) {
		c.T.Helper()
		c.Eventually(30*time.Second, what, func() error {
			got, err := get(url)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, want) {
				return fmt.Errorf("got %s", got)
			}
			return nil
		})
	}
	serves("it serves", "readiness answers")
	sh(c, "readiness", "touch /tmp/unready")
	serves("it is taken out", "refused")
	contains(c.T, "get", c.Kubectl("get", "pod", "readiness"), "0/1", "Running")
	sh(c, "readiness", "rm /tmp/unready")
	serves("it serves again", "readiness answers")
	if n := pod(c, "readiness").Status.ContainerStatuses[0].RestartCount; n != 0 {
		c.T.Errorf("%d restarts", n)
	}
}

// testLivenessProbes: each kind of probe lets a healthy container be and
// restarts a sick one.
func testLivenessProbes(c *harness.Cluster, image string) {
	probes := map[string]string{
		"exec": "exec: {command: [sh, -c, test ! -e /tmp/sick]}",
		"http": "httpGet: {path: /healthy, port: web}",
		"grpc": "grpc: {port: 8082}",
		"tcp":  "tcpSocket: {port: web}",
	}
	var all strings.Builder
	for kind, probe := range probes {
		all.WriteString(onePod("live-"+kind, image, "", `
    args: [serve, -grpc, ":8082"], ports: [{name: web, containerPort: 8080}],
    readinessProbe: {`+probe+`, periodSeconds: 1, timeoutSeconds: 20},
    livenessProbe: {`+probe+`, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 2}`)) // a busy machine is not sick
	}
	all.WriteString(onePod("live-nobody", image, "", `livenessProbe: {tcpSocket: {port: 9999}, periodSeconds: 1, failureThreshold: 2}`))
	c.Apply(all.String())
	for kind := range probes {
		ready(c, "live-"+kind)
		if n := pod(c, "live-"+kind).Status.ContainerStatuses[0].RestartCount; n != 0 {
			c.T.Errorf("live-%s: %d restarts of a healthy container", kind, n)
		}
		if kind != "tcp" {
			sh(c, "live-"+kind, "touch /tmp/sick")
		}
	}
	for _, name := range []string{"live-exec", "live-http", "live-grpc", "live-nobody"} {
		until(c, name, "is restarted", restarts(1))
	}
	c.Shows([]string{"Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 503", "Container a failed liveness probe, will be restarted"},
		"get", "events", "--field-selector", "involvedObject.name=live-http")
}
