package e2e

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// testLimits: limits are those of the container's cgroup, and hold.
func testLimits(c *harness.Cluster, image string) {
	c.Apply(onePod("limits", image, "", `resources: {limits: {cpu: 500m, memory: 64Mi}}`) +
		onePod("eats", image, "restartPolicy: Never", `args: [eat, "64"], resources: {limits: {memory: 32Mi}}`))
	ready(c, "limits")
	// Version 2 of cgroups has one file, version 1 a folder for each controller.
	cpu := sh(c, "limits", "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null; true")
	contains(c.T, "cpu", cpu, "50000")
	memory := sh(c, "limits", "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; true")
	contains(c.T, "memory", memory, "67108864")
	if p := pod(c, "limits"); p.Status.QOSClass != corev1.PodQOSGuaranteed || p.Spec.Containers[0].Resources.Requests.Cpu().String() != "500m" {
		c.T.Errorf("requests follow limits: %s, %v", p.Status.QOSClass, p.Spec.Containers[0].Resources.Requests)
	}
	until(c, "eats", "is killed", func(p corev1.Pod) error {
		if s := p.Status.ContainerStatuses; len(s) == 0 || s[0].State.Terminated == nil || s[0].State.Terminated.Reason != "OOMKilled" || s[0].State.Terminated.ExitCode != 137 {
			return fmt.Errorf("%s", states(p))
		}
		return phase(corev1.PodFailed)(p)
	})
}

func testSecurity(c *harness.Cluster, image string) {
	c.Apply(onePod("security", image, `securityContext: {runAsUser: 1000, runAsGroup: 3000, fsGroup: 2000, seccompProfile: {type: RuntimeDefault}}, volumes: [{name: w, emptyDir: {}}]`,
		`volumeMounts: [{name: w, mountPath: /w}], securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}`) +
		onePod("privileged", image, "hostPID: true", "securityContext: {privileged: true}") +
		onePod("not-root", image, "securityContext: {runAsNonRoot: true}", "") +
		onePod("sysctl", image, "securityContext: {sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: \"80\"}]}", ""))
	ready(c, "security", "privileged", "sysctl")
	contains(c.T, "security", sh(c, "security", "id; touch /x 2>&1; touch /w/x; stat -c 'group %g' /w/x; grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/1/status"),
		"uid=1000", "gid=3000", "2000", "Read-only file system", "group 2000", "CapBnd:\t0000000000000400", "NoNewPrivs:\t1", "Seccomp:\t2")
	contains(c.T, "privileged", sh(c, "privileged", "grep Seccomp: /proc/self/status; ls /dev | wc -l; cat /proc/1/comm"), "Seccomp:\t0")
	contains(c.T, "sysctl", sh(c, "sysctl", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"), "80\n")
	until(c, "not-root", "is refused", func(p corev1.Pod) error {
		if s := p.Status.ContainerStatuses; len(s) == 0 || s[0].State.Waiting == nil || s[0].State.Waiting.Reason != "CreateContainerConfigError" {
			return fmt.Errorf("%s", states(p))
		}
		return nil
	})
	contains(c.T, "not-root", states(pod(c, "not-root")), "container has runAsNonRoot and image will run as root")
}
