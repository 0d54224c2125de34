package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestPods: what a pod may ask for, it gets. The parts share a cluster and run
// beside each other, each with pods of its own.
func TestPods(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t)
	t.Run("parts", func(t *testing.T) {
		for name, test := range map[string]func(*harness.Cluster, string){
			"volumes":           testVolumes,
			"service account":   testServiceAccount,
			"environment":       testEnvironment,
			"init and sidecars": testInit,
			"restart policies":  testRestartPolicies,
			"hooks":             testHooks,
			"grace":             testGrace,
			"startup probe":     testStartupProbe,
			"readiness probe":   testReadinessProbe,
			"liveness probes":   testLivenessProbes,
			"limits":            testLimits,
			"security":          testSecurity,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(c.In(t), image)
			})
		}
	})
}

// onePod is the manifest of a pod with one container, a, that ends at once
// when it is deleted. spec is the rest of the pod's in flow style, container
// the rest of the container's.
func onePod(name, image, spec, container string) string {
	if spec != "" {
		spec += ", "
	}
	if container != "" {
		container = ", " + container
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %[1]s, labels: {app: %[1]s}}\nspec: {terminationGracePeriodSeconds: 0, %[3]scontainers: [{name: a, image: %[2]q%[4]s}]}\n---\n", name, image, spec, container)
}

func pod(c *harness.Cluster, name string) corev1.Pod {
	c.T.Helper()
	var p corev1.Pod
	decode(c, &p, "get", "pod", name, "-o", "json")
	return p
}

// ready waits until a pod is ready.
func ready(c *harness.Cluster, names ...string) {
	c.T.Helper()
	for _, name := range names {
		c.Await("condition=Ready", "pod/"+name)
	}
}

// listens is for a container that is asked as soon as it is ready: without a
// probe that is when it runs, and it may listen only a moment later.
const listens = "readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, timeoutSeconds: 20}"

// sh runs a script in the first container of a pod.
func sh(c *harness.Cluster, name, script string) string {
	c.T.Helper()
	return c.Kubectl("exec", name, "-c", "a", "--", "sh", "-c", script)
}

// until waits until a pod is as check wants it.
func until(c *harness.Cluster, name, what string, check func(corev1.Pod) error) {
	c.T.Helper()
	c.Eventually(2*time.Minute, "pod "+name+" "+what, func() error { return check(pod(c, name)) })
}

// phase wants a pod's phase.
func phase(want corev1.PodPhase) func(corev1.Pod) error {
	return func(p corev1.Pod) error {
		if p.Status.Phase != want {
			return fmt.Errorf("it is %s: %s", p.Status.Phase, states(p))
		}
		return nil
	}
}

// restarts wants a number of restarts of the first container, and that it runs
// again.
func restarts(want int32) func(corev1.Pod) error {
	return func(p corev1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount < want || p.Status.ContainerStatuses[0].State.Running == nil {
			return fmt.Errorf("want %d restarts: %s", want, states(p))
		}
		return nil
	}
}

// states tells in a line what the containers of a pod do.
func states(p corev1.Pod) string {
	var out []string
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		what := "running"
		if w := s.State.Waiting; w != nil {
			what = w.Reason + " " + w.Message
		} else if e := s.State.Terminated; e != nil {
			what = fmt.Sprintf("%s %d", e.Reason, e.ExitCode)
		}
		out = append(out, fmt.Sprintf("%s %s, %d restarts", s.Name, what, s.RestartCount))
	}
	return strings.Join(out, "; ")
}
