package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestDebug: `kubectl debug` in all its forms: a container added to a pod that
// runs, a copy of a pod, and a pod that looks at a node.
func TestDebug(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	box := registry.Push("box:1", harness.Busybox(t))
	c := harness.Start(t, "--node-name", "examined")
	c.Apply(onePod("sick", image, "", ""))
	ready(c, "sick")
	t.Run("parts", func(t *testing.T) {
		for name, test := range map[string]func(*harness.Cluster, string){
			"a container more": debugInPod, "a copy": debugCopy, "a node": debugNode,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(c.In(t), box)
			})
		}
	})
}

// ephemeral is the status of a container that was added to a pod.
func ephemeral(p corev1.Pod, name string) corev1.ContainerState {
	for _, s := range p.Status.EphemeralContainerStatuses {
		if s.Name == name {
			return s.State
		}
	}
	return corev1.ContainerState{}
}

// debugInPod: the pod runs on while somebody looks over its shoulder, at its
// processes, its files and its network.
func debugInPod(c *harness.Cluster, box string) {
	before := pod(c, "sick")
	sh(c, "sick", "echo found > /tmp/mark")
	term := c.Terminal(24, 80, "debug", "-it", "sick", "--image="+box, "--target=a", "-c", "look", "--", "sh")
	// What is typed before the terminal is attached may be shown twice, what it
	// computes only once it was run.
	term.Type("echo pid one is $(cat /proc/1/comm)\n")
	term.Expect("pid one is tool")
	term.Type("echo its file says $(cat /proc/1/root/tmp/mark)\n")
	term.Expect("its file says found")
	term.Type("wget -q -O - http://127.0.0.1:8080/\n")
	term.Expect("sick answers 127.0.0.1:")
	term.Type("exit 3\n")
	if err := term.Wait(); err != nil { // kubectl says that the session ended, however that was
		c.T.Errorf("a debugger that exits 3: %v\n%s", err, term.Said())
	}
	until(c, "sick", "tells of its debugger's end", func(p corev1.Pod) error {
		if end := ephemeral(p, "look").Terminated; end == nil || end.ExitCode != 3 {
			return fmt.Errorf("the container's state is %+v", ephemeral(p, "look"))
		}
		return nil
	})
	contains(c.T, "describe", c.Kubectl("describe", "pod", "sick"), "Ephemeral Containers:", "look:", "Exit Code:    3")

	// Without a terminal; what it says is in its log, and it is not run again.
	c.Kubectl("debug", "sick", "--image="+box, "-c", "once", "--", "sh", "-c", "echo once; cat /proc/1/comm; true")
	until(c, "sick", "ran another", func(p corev1.Pod) error {
		if end := ephemeral(p, "once").Terminated; end == nil || end.ExitCode != 0 {
			return fmt.Errorf("the container's state is %+v", ephemeral(p, "once"))
		}
		return nil
	})
	if got := c.Kubectl("logs", "sick", "-c", "once"); got != "once\nsh\n" {
		c.T.Errorf("without a target it sees its own processes only, and says so once: %q", got)
	}
	// A profile is a security context; by this one what an unprivileged pod may
	// not is allowed.
	const mount = "mount -t tmpfs none /tmp && echo mounted"
	if out, err := c.Try("exec", "sick", "--", "sh", "-c", mount); err == nil {
		c.T.Errorf("the patient itself may mount: %s", out)
	}
	c.Kubectl("debug", "sick", "--image="+box, "-c", "admin", "--profile=sysadmin", "--", "sh", "-c", mount)
	until(c, "sick", "ran one with all rights", func(p corev1.Pod) error {
		if end := ephemeral(p, "admin").Terminated; end == nil || end.ExitCode != 0 {
			return fmt.Errorf("the container's state is %+v", ephemeral(p, "admin"))
		}
		return nil
	})
	contains(c.T, "a name that is taken", fails(c, "", "debug", "sick", "--image="+box, "-c", "a", "--", "true"), `Duplicate value: "a"`)
	contains(c.T, "a target that is none", fails(c, "", "debug", "sick", "--image="+box, "--target=nobody", "-c", "lost", "--", "true"), `targetContainerName: Not found: "nobody"`)

	after := pod(c, "sick")
	if after.UID != before.UID || after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID || after.Status.ContainerStatuses[0].RestartCount != 0 {
		c.T.Errorf("the pod did not just run on: %s", states(after))
	}
	ready(c, "sick")
}

// debugCopy: the patient's twin, changed at will.
func debugCopy(c *harness.Cluster, box string) {
	term := c.Terminal(24, 80, "debug", "-it", "sick", "--copy-to=twin", "--share-processes", "--image="+box, "-c", "look", "--", "sh")
	term.Type("echo sees $(pidof tool | wc -w) and $(pidof pause | wc -w)\n")
	term.Expect("sees 1 and 1")
	term.Type("exit\n")
	if err := term.Wait(); err != nil {
		c.T.Errorf("a debugger that ends well: %v\n%s", err, term.Said())
	}
	twin := pod(c, "twin")
	if twin.Spec.ShareProcessNamespace == nil || !*twin.Spec.ShareProcessNamespace || len(twin.Spec.Containers) != 2 || len(twin.Labels) != 0 {
		c.T.Errorf("the twin: labels %v, spec %+v", twin.Labels, twin.Spec)
	}
	// Another image, another command, in the patient's place.
	c.Apply(onePod("loops", box, "", `command: [sh, -c, "exit 1"]`))
	until(c, "loops", "crashes", func(p corev1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].LastTerminationState.Terminated == nil {
			return fmt.Errorf("it does not: %s", states(p))
		}
		return nil
	})
	c.Kubectl("debug", "loops", "--copy-to=calm", "--replace", "--same-node", "--set-image=a="+box, "--container=a", "--", "sleep", "1000000")
	ready(c, "calm")
	calm := pod(c, "calm")
	if got := strings.Join(append(calm.Spec.Containers[0].Command, calm.Spec.Containers[0].Args...), " "); got != "sleep 1000000" || calm.Spec.NodeName != "examined" {
		c.T.Errorf("the copy runs %q on node %s", got, calm.Spec.NodeName)
	}
	c.Await("delete", "pod/loops")
}

// debugNode: a pod with the node's processes, network and files.
func debugNode(c *harness.Cluster, box string) {
	term := c.Terminal(24, 80, "debug", "node/examined", "-it", "--image="+box, "--profile=sysadmin", "--", "sh")
	term.Type(fmt.Sprintf("echo setpoint is $(cat /proc/%d/comm)\n", c.Process().PID()))
	term.Expect("setpoint is setpoint")
	term.Type("chroot /host ls " + filepath.Join(c.Dir, "cluster.json") + " && echo the folder is th''ere\n")
	term.Expect("the folder is there")
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		c.T.Fatal(err)
	}
	term.Type("echo in $(readlink /proc/self/ns/net).\n")
	term.Expect("in " + network + ".")
	term.Type("exit\n")
	if err := term.Wait(); err != nil {
		c.T.Errorf("a debugger that ends well: %v\n%s", err, term.Said())
	}
	name := ""
	for _, line := range strings.Fields(c.Kubectl("get", "pods", "-o", "name")) {
		if strings.HasPrefix(line, "pod/node-debugger-examined-") {
			name = strings.TrimPrefix(line, "pod/")
		}
	}
	until(c, name, "has ended and stays", phase(corev1.PodSucceeded))
	p := pod(c, name)
	if !p.Spec.HostPID || !p.Spec.HostNetwork || !p.Spec.HostIPC || p.Status.PodIP != p.Status.HostIP {
		c.T.Errorf("its spec is %+v, its address %s", p.Spec, p.Status.PodIP)
	}
}
