package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// testInit: init containers one after the other, a sidecar beside them and the
// main container, and the sidecar ends when the main container has.
func testInit(c *harness.Cluster, image string) {
	const mount = `volumeMounts: [{name: w, mountPath: /w}]`
	step := func(name, script, more string) string {
		return fmt.Sprintf("{name: %s, image: %q, command: [sh, -c, %q], %s%s}", name, image, script, mount, more)
	}
	c.Apply(onePod("init", image, "restartPolicy: Never, volumes: [{name: w, emptyDir: {}}], initContainers: ["+
		step("first", "echo first >> /w/order", "")+", "+
		step("side", "echo side >> /w/order; sleep 1000000", ", restartPolicy: Always")+", "+
		step("second", "until grep -q side /w/order; do sleep 0.1; done; echo second >> /w/order", "")+"]",
		`command: [sh, -c, "cat /w/order; echo main"], `+mount) +
		onePod("init-fails", image, "restartPolicy: Never, initContainers: ["+fmt.Sprintf("{name: bad, image: %q, command: [sh, -c, exit 4]}", image)+"]", ""))
	until(c, "init", "succeeds", phase(corev1.PodSucceeded))
	if got := c.Kubectl("logs", "init", "-c", "a"); got != "first\nside\nsecond\nmain\n" {
		c.T.Errorf("order: %q", got)
	}
	until(c, "init", "has no sidecar left", func(p corev1.Pod) error {
		if s := p.Status.InitContainerStatuses; len(s) != 3 || s[1].State.Terminated == nil {
			return fmt.Errorf("%s", states(p))
		}
		return nil
	})
	contains(c.T, "get", c.Kubectl("get", "pod", "init"), "Completed")
	until(c, "init-fails", "fails", phase(corev1.PodFailed))
	contains(c.T, "get", c.Kubectl("get", "pod", "init-fails"), "Init:Error")
}

func testRestartPolicies(c *harness.Cluster, image string) {
	once := `volumeMounts: [{name: w, mountPath: /w}], command: [sh, -c, "test -e /w/ran && %s; touch /w/ran; exit %d"]`
	volume := "volumes: [{name: w, emptyDir: {}}], restartPolicy: "
	c.Apply(onePod("on-failure", image, volume+"OnFailure", fmt.Sprintf(once, "exit 0", 1)) +
		onePod("never", image, volume+"Never", fmt.Sprintf(once, "exit 0", 3)) +
		onePod("always", image, volume+"Always", fmt.Sprintf(once, "exec sleep 1000000", 0)) +
		onePod("deadline", image, "activeDeadlineSeconds: 2", ""))
	until(c, "on-failure", "succeeds", phase(corev1.PodSucceeded))
	if s := pod(c, "on-failure").Status.ContainerStatuses[0]; s.RestartCount != 1 || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 1 {
		c.T.Errorf("on-failure: %+v", s)
	}
	until(c, "never", "fails", phase(corev1.PodFailed))
	if s := pod(c, "never").Status.ContainerStatuses[0]; s.RestartCount != 0 || s.State.Terminated == nil || s.State.Terminated.ExitCode != 3 || s.State.Terminated.Reason != "Error" {
		c.T.Errorf("never: %+v", s)
	}
	until(c, "always", "is restarted", restarts(1))
	if last := pod(c, "always").Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.Reason != "Completed" || last.ExitCode != 0 {
		c.T.Errorf("always: last state %+v", last)
	}
	until(c, "deadline", "fails", phase(corev1.PodFailed))
	if p := pod(c, "deadline"); p.Status.Reason != "DeadlineExceeded" {
		c.T.Errorf("deadline: reason %q", p.Status.Reason)
	}
}

// testHooks: postStart beside the start, preStop before the signal to end.
func testHooks(c *harness.Cluster, image string) {
	host, err := os.MkdirTemp("", "sp-host-")
	if err != nil {
		c.T.Fatal(err)
	}
	defer os.RemoveAll(host)
	script := `trap 'echo term >> /host/order; exit 0' TERM; touch /host/armed; while true; do sleep 0.1; done`
	hooked := strings.Replace(onePod("hooks", image, `volumes: [{name: host, hostPath: {path: `+host+`}}]`, fmt.Sprintf(`
    command: [sh, -c, %q], volumeMounts: [{name: host, mountPath: /host}],
    lifecycle: {postStart: {exec: {command: [sh, -c, "echo post >> /host/order"]}}, preStop: {exec: {command: [sh, -c, "sleep 1; echo pre >> /host/order"]}}}`, script)),
		"terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 20", 1)
	c.Apply(hooked + onePod("hook-fails", image, "", `lifecycle: {postStart: {exec: {command: [sh, -c, exit 5]}}}`))
	ready(c, "hooks")
	c.Eventually(time.Minute, "it listens to signals", func() error {
		_, err := os.Stat(filepath.Join(host, "armed"))
		return err
	})
	c.Kubectl("delete", "pod", "hooks")
	if got, err := os.ReadFile(filepath.Join(host, "order")); err != nil || string(got) != "post\npre\nterm\n" {
		c.T.Errorf("order %q, %v", got, err)
	}
	c.Eventually(time.Minute, "a postStart hook that fails ends the container", func() error {
		if out := c.Kubectl("get", "events", "--field-selector", "involvedObject.name=hook-fails"); !strings.Contains(out, "FailedPostStartHook") {
			return fmt.Errorf("events:\n%s", out)
		}
		return nil
	})
}

// testGrace: who does not heed the signal is killed when the grace is over, at
// once when there is none, and sooner when it is asked for again.
func testGrace(c *harness.Cluster, image string) {
	deaf := func(name string, grace string) string {
		return strings.Replace(onePod(name, image, "", `command: [sh, -c, "trap '' TERM; while true; do sleep 0.1; done"]`),
			"terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: "+grace, 1)
	}
	c.Apply(deaf("deaf", "3") + deaf("forced", "600") + deaf("hurried", "600"))
	ready(c, "deaf", "forced", "hurried")
	begin := time.Now()
	c.Kubectl("delete", "pod", "deaf")
	if took := time.Since(begin); took < 3*time.Second {
		c.T.Errorf("it was gone after %s, before its grace was over", took)
	}
	uid := string(pod(c, "forced").UID)
	c.Kubectl("delete", "pod", "forced", "--grace-period=0", "--force")
	contains(c.T, "forced", fails(c, "", "get", "pod", "forced"), "NotFound")
	c.Eventually(time.Minute, "no process of the forced pod", func() error {
		if left := processesOf(uid); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	c.Kubectl("delete", "pod", "hurried", "--wait=false")
	c.Kubectl("delete", "pod", "hurried", "--grace-period=1", "--timeout=300s")
}

// processesOf lists the processes in cgroups whose path holds text. One that
// has ended and whom its parent, which may be the machine's first process, has
// not asked after yet does not count.
func processesOf(text string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	var out []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), text) {
			if status, err := os.ReadFile(filepath.Join(filepath.Dir(f), "status")); err != nil || strings.Contains(string(status), "State:\tZ") {
				continue
			}
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "comm"))
			out = append(out, filepath.Base(filepath.Dir(f))+" "+strings.TrimSpace(string(name)))
		}
	}
	return out
}
