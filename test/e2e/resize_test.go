package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestResize: a running pod gets other resources, which its control groups
// show, with no restart unless it wants one; what the node has not waits.
func TestResize(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t)
	c.Apply(onePod("sized", image, "", `resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, memory: 128Mi}}, resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]`))
	ready(c, "sized")
	resize := func(requests, limits string) {
		t.Helper()
		c.Kubectl("patch", "pod", "sized", "--subresource=resize", "-p",
			fmt.Sprintf(`{"spec":{"containers":[{"name":"a","resources":{"requests":{%s},"limits":{%s}}}]}}`, requests, limits))
	}
	// quota and memory limit, of either version of control groups.
	limits := func() string {
		return strings.Join(strings.Fields(sh(c, "sized", "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || (cut -d' ' -f1 /sys/fs/cgroup/cpu.max; cat /sys/fs/cgroup/memory.max)")), " ")
	}
	if got := limits(); got != "20000 134217728" {
		t.Fatalf("as it was made: %s", got)
	}
	before := pod(c, "sized").Status.ContainerStatuses[0]
	done := func(restarts int32, cpu, memory string) {
		t.Helper()
		until(c, "sized", "it is resized", func(p corev1.Pod) error {
			s := p.Status.ContainerStatuses[0]
			for _, cond := range p.Status.Conditions {
				if strings.HasPrefix(string(cond.Type), "PodResize") {
					return fmt.Errorf("%s: %s %s", cond.Type, cond.Reason, cond.Message)
				}
			}
			if s.Resources == nil || !s.Ready || s.RestartCount != restarts || s.Resources.Limits.Cpu().String() != cpu || s.Resources.Limits.Memory().String() != memory {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	resize(`"cpu":"150m"`, `"cpu":"300m"`)
	done(0, "300m", "128Mi")
	if got := limits(); got != "30000 134217728" {
		t.Errorf("with more CPU: %s", got)
	}
	if s := pod(c, "sized").Status.ContainerStatuses[0]; s.ContainerID != before.ContainerID {
		t.Errorf("another container runs: %+v", s)
	}
	resize(`"cpu":"50m"`, `"cpu":"100m"`)
	done(0, "100m", "128Mi")
	if got := limits(); got != "10000 134217728" {
		t.Errorf("with less CPU: %s", got)
	}
	resize(`"memory":"100Mi"`, `"memory":"200Mi"`)
	done(1, "100m", "200Mi")
	if got := limits(); got != "10000 209715200" {
		t.Errorf("with more memory: %s", got)
	}
	resize(`"cpu":"5k"`, `"cpu":"6k"`)
	until(c, "sized", "it cannot be had", func(p corev1.Pod) error {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodResizePending && cond.Reason == corev1.PodReasonInfeasible && strings.Contains(cond.Message, "Node didn't have enough capacity: cpu, requested: 5000000") {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status.Conditions)
	})
	c.Kill()
	c.Up()
	resize(`"cpu":"60m"`, `"cpu":"120m"`)
	done(1, "120m", "200Mi")
	c.Eventually(time.Minute, "the limits after a restart of the kubelet", func() error {
		if got := limits(); got != "12000 209715200" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
}
