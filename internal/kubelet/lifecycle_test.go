package kubelet_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forever is a container that runs until it is asked to end.
const forever = `'trap "exit 0" TERM; while :; do sleep 0.1; done'`

// TestNode lives the lives of many pods on one node.
func TestNode(t *testing.T) {
	r := newRig(t)
	// All at once: they mostly wait for the runtime.
	var wg sync.WaitGroup
	slots := make(chan struct{}, 5)
	for name, f := range map[string]func(*rig){
		"life": life, "exits": exits, "fails": fails, "crash loop": crashLoop, "evicted": evicted, "init": initContainers, "sidecar": sidecar,
		"bad image": badImage, "bad command": badCommand, "config error": configError, "probes": probes, "hooks": hooks,
		"volumes": volumes, "environment": environment, "oom": oomKilled, "deadline": deadline, "refused": refused,
		"security": security, "force": force, "last words": lastWords,
	} {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(name, func(t *testing.T) { f(r.in(t)) })
		})
	}
	wg.Wait()
	t.Run("server", func(t *testing.T) { serve(r.in(t)) })
	t.Run("devices", func(t *testing.T) { devices(r) })
	t.Run("image volume", func(t *testing.T) { imageVolume(r) })
	t.Run("take over", func(t *testing.T) { takeOver(r) })
}

// A pod comes up, tells the truth about itself, and leaves nothing behind.
func life(r *rig) {
	t := r.t
	r.pod("web", `
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: setpoint.test/box:1
    command: [sh, -c, 'echo hello $NAME; trap "exit 0" TERM; while :; do sleep 0.1; done']
    env:
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
`)
	p := r.await("web", "ready", ready)
	s := p.Status
	if s.Phase != v1.PodRunning || s.PodIP == "" || s.HostIP != "127.0.0.1" || s.QOSClass != v1.PodQOSBurstable || s.StartTime == nil || s.ObservedGeneration != p.Generation {
		t.Errorf("status is %+v", s)
	}
	c := s.ContainerStatuses[0]
	if !c.Ready || c.Started == nil || !*c.Started || c.RestartCount != 0 || c.Image != box || !strings.HasPrefix(c.ContainerID, "containerd://") || c.ImageID == "" {
		t.Errorf("container status is %+v", c)
	}
	for _, c := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.ContainersReady, v1.PodScheduled} {
		if condition(p, c) != v1.ConditionTrue {
			t.Errorf("condition %s is %s", c, condition(p, c))
		}
	}
	r.logged(p, "main", 0, "hello web\n")
	for _, want := range []string{"Pulled: Container image", "Created: Container created", "Started: Container started"} {
		r.wait("event "+want, func() bool { return strings.Contains(strings.Join(r.events("web"), "\n"), want) })
	}
	r.delete("web", nil)
	r.await("web", "gone", gone)
	r.leftNothing(p)
}

// leftNothing checks that no trace of a pod is on the node.
func (r *rig) leftNothing(p *v1.Pod) {
	r.t.Helper()
	if _, err := os.Stat(filepath.Join(r.opts.RootDir, "pods", string(p.UID))); !os.IsNotExist(err) {
		r.t.Errorf("the folder of %s is there: %v", p.Name, err)
	}
	for _, h := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/freezer", "/sys/fs/cgroup"} {
		for _, class := range []string{"", "burstable", "besteffort"} {
			if _, err := os.Stat(filepath.Join(h, r.cgroups, "kubepods", class, "pod"+string(p.UID))); !os.IsNotExist(err) {
				r.t.Errorf("the group of %s in %s is there: %v", p.Name, h, err)
			}
		}
	}
	if logs, _ := filepath.Glob(filepath.Join(r.logs, "*"+string(p.UID))); len(logs) > 0 {
		r.t.Errorf("logs of %s are there: %v", p.Name, logs)
	}
}

func exits(r *rig) {
	r.pod("exits", `
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, exit 0]}
`)
	p := r.await("exits", "Succeeded", phase(v1.PodSucceeded))
	if st := p.Status.ContainerStatuses[0].State.Terminated; st == nil || st.Reason != "Completed" || st.ExitCode != 0 || st.FinishedAt.IsZero() {
		r.t.Errorf("state is %+v", p.Status.ContainerStatuses[0].State)
	}
	if condition(p, v1.PodReady) != v1.ConditionFalse || condition(p, v1.PodInitialized) != v1.ConditionTrue {
		r.t.Errorf("conditions are %+v", p.Status.Conditions)
	}
	r.delete("exits", nil)
	r.await("exits", "gone", gone)
	r.wait("nothing is left", func() bool {
		_, err := os.Stat(filepath.Join(r.opts.RootDir, "pods", string(p.UID)))
		return os.IsNotExist(err)
	})
}

func fails(r *rig) {
	r.pod("fails", `
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, exit 3]}
  - {name: other, image: setpoint.test/box:1, command: [sh, -c, exit 0]}
`)
	p := r.await("fails", "Failed", phase(v1.PodFailed))
	if st := p.Status.ContainerStatuses[0].State.Terminated; st == nil || st.Reason != "Error" || st.ExitCode != 3 {
		r.t.Errorf("state is %+v", p.Status.ContainerStatuses[0].State)
	}
}

// A pod whose volume grows beyond its limit has to leave.
func evicted(r *rig) {
	r.pod("evicted", `
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: setpoint.test/box:1
    command: [sh, -c, 'head -c 3000000 /dev/zero > /v/large; sleep 600']
    volumeMounts: [{name: v, mountPath: /v}]
  volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}]
`)
	p := r.await("evicted", "Failed", phase(v1.PodFailed))
	if p.Status.Reason != "Evicted" || p.Status.Message != `Usage of EmptyDir volume "v" exceeds the limit "1Mi". ` {
		r.t.Errorf("failed for %s: %s", p.Status.Reason, p.Status.Message)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget {
			r.t.Errorf("its own excess is told as a disruption: %+v", c)
		}
	}
	r.delete("evicted", nil)
	r.await("evicted", "gone", gone)
}

// A container that keeps ending is restarted at once the first time, and then
// waits for its back-off.
func crashLoop(r *rig) {
	r.pod("crash", `
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, 'echo run; exit 1']}
`)
	p := r.await("crash", "in back-off", func(p *v1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	c := p.Status.ContainerStatuses[0]
	if c.RestartCount != 1 || c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != 1 || p.Status.Phase != v1.PodRunning {
		r.t.Errorf("status is %+v, phase %s", c, p.Status.Phase)
	}
	if want := "back-off 10s restarting failed container=main pod=crash_default(" + string(p.UID) + ")"; c.State.Waiting.Message != want {
		r.t.Errorf("message is %q, want %q", c.State.Waiting.Message, want)
	}
	r.delete("crash", nil)
	r.await("crash", "gone", gone)
}

func initContainers(r *rig) {
	r.pod("init", `
spec:
  restartPolicy: Never
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: one, image: setpoint.test/box:1, command: [sh, -c, 'echo one >> /v/f'], volumeMounts: [{name: v, mountPath: /v}]}
  - {name: two, image: setpoint.test/box:1, command: [sh, -c, 'echo two >> /v/f'], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - {name: main, image: setpoint.test/box:1, command: [cat, /v/f], volumeMounts: [{name: v, mountPath: /v}]}
`)
	p := r.await("init", "Succeeded", phase(v1.PodSucceeded))
	r.logged(p, "main", 0, "one\ntwo\n")
	for _, c := range p.Status.InitContainerStatuses {
		if !c.Ready || c.State.Terminated == nil || c.State.Terminated.Reason != "Completed" {
			r.t.Errorf("init container status is %+v", c)
		}
	}
	r.pod("init-fails", `
spec:
  restartPolicy: Never
  initContainers:
  - {name: one, image: setpoint.test/box:1, command: [sh, -c, 'exit 2']}
  containers:
  - {name: main, image: setpoint.test/box:1, command: [cat, /v/f]}
`)
	p = r.await("init-fails", "Failed", phase(v1.PodFailed))
	if p.Status.ContainerStatuses[0].State.Waiting == nil || p.Status.ContainerStatuses[0].State.Waiting.Reason != "PodInitializing" {
		r.t.Errorf("main container is %+v", p.Status.ContainerStatuses[0].State)
	}
}

// A sidecar starts before the main container and ends after it.
func sidecar(r *rig) {
	r.pod("side", `
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 20
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - name: side
    image: setpoint.test/box:1
    restartPolicy: Always
    command: [sh, -c, 'trap "echo side ends >> /v/f; cat /v/f; exit 0" TERM; echo side >> /v/f; while :; do sleep 0.1; done']
    startupProbe: {exec: {command: [test, -f, /v/f]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 60}
    volumeMounts: [{name: v, mountPath: /v}]
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, 'echo main >> /v/f'], volumeMounts: [{name: v, mountPath: /v}]}
`)
	p := r.await("side", "Succeeded", phase(v1.PodSucceeded))
	r.logged(p, "side", 0, "side\nmain\nside ends\n")
}

func badImage(r *rig) {
	r.pod("noimage", `
spec:
  containers:
  - {name: main, image: '127.0.0.1:1/nothing:1', command: [x]}
`)
	r.await("noimage", "ErrImagePull", waiting("ErrImagePull"))
	r.await("noimage", "ImagePullBackOff", waiting("ImagePullBackOff"))
	r.pod("badname", `
spec:
  containers:
  - {name: main, image: 'UPPER CASE', command: [x]}
`)
	r.await("badname", "InvalidImageName", waiting("InvalidImageName"))
	r.pod("never", `
spec:
  containers:
  - {name: main, image: 'setpoint.test/none:1', imagePullPolicy: Never, command: [x]}
`)
	p := r.await("never", "ErrImageNeverPull", waiting("ErrImageNeverPull"))
	if want := `Container image "setpoint.test/none:1" is not present with pull policy of Never`; p.Status.ContainerStatuses[0].State.Waiting.Message != want {
		r.t.Errorf("message is %q, want %q", p.Status.ContainerStatuses[0].State.Waiting.Message, want)
	}
	for _, n := range []string{"noimage", "badname", "never"} {
		r.delete(n, nil)
		r.await(n, "gone", gone)
	}
}

func waiting(reason string) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == reason
	}
}

func badCommand(r *rig) {
	r.pod("nocommand", `
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: setpoint.test/box:1, command: [/no/such/command]}
`)
	p := r.await("nocommand", "Failed", phase(v1.PodFailed))
	if st := p.Status.ContainerStatuses[0].State.Terminated; st == nil || st.Reason != "StartError" || st.ExitCode != 128 || !strings.Contains(st.Message, "/no/such/command") {
		r.t.Errorf("state is %+v", p.Status.ContainerStatuses[0].State.Terminated)
	}
}

func configError(r *rig) {
	r.pod("noconfig", `
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: setpoint.test/box:1
    command: [sh, -c, 'echo got $V; while :; do sleep 0.1; done']
    env: [{name: V, valueFrom: {configMapKeyRef: {name: late, key: k}}}]
`)
	r.await("noconfig", "CreateContainerConfigError", waiting("CreateContainerConfigError"))
	r.configMap("late", map[string]string{"k": "v"})
	p := r.await("noconfig", "ready", ready)
	r.logged(p, "main", 0, "got v\n")
	r.delete("noconfig", nil)
	r.await("noconfig", "gone", gone)
}

func lastWords(r *rig) {
	r.pod("words", `
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, 'echo -n adieu > /dev/termination-log; exit 1'], terminationMessagePath: /dev/termination-log}
  - {name: log, image: setpoint.test/box:1, command: [sh, -c, 'echo from the log; exit 1'], terminationMessagePath: /dev/termination-log, terminationMessagePolicy: FallbackToLogsOnError}
`)
	p := r.await("words", "Failed", phase(v1.PodFailed))
	var got []string
	for _, c := range p.Status.ContainerStatuses {
		got = append(got, c.State.Terminated.Message)
	}
	if got[0] != "adieu" || got[1] != "from the log\n" {
		r.t.Errorf("messages are %q", got)
	}
}

func oomKilled(r *rig) {
	r.pod("oom", `
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, 'x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done'], resources: {limits: {memory: 32Mi}}}
`)
	p := r.await("oom", "Failed", phase(v1.PodFailed))
	if st := p.Status.ContainerStatuses[0].State.Terminated; st == nil || st.Reason != "OOMKilled" || st.ExitCode != 137 {
		r.t.Errorf("state is %+v", p.Status.ContainerStatuses[0].State)
	}
}

func deadline(r *rig) {
	r.pod("slow", `
spec:
  activeDeadlineSeconds: 2
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, `+forever+`]}
`)
	p := r.await("slow", "Failed", phase(v1.PodFailed))
	if p.Status.Reason != "DeadlineExceeded" {
		r.t.Errorf("reason is %q", p.Status.Reason)
	}
}

func refused(r *rig) {
	r.pod("greedy", `
spec:
  containers:
  - {name: main, image: setpoint.test/box:1, resources: {requests: {cpu: "1000"}}}
`)
	p := r.await("greedy", "Failed", phase(v1.PodFailed))
	if p.Status.Reason != "OutOfcpu" || !strings.HasPrefix(p.Status.Message, "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000, used: ") {
		r.t.Errorf("reason is %q: %s", p.Status.Reason, p.Status.Message)
	}
	r.pod("elsewhere", `
spec:
  nodeSelector: {no: such}
  containers:
  - {name: main, image: setpoint.test/box:1}
`)
	p = r.await("elsewhere", "Failed", phase(v1.PodFailed))
	if p.Status.Reason != "NodeAffinity" {
		r.t.Errorf("reason is %q: %s", p.Status.Reason, p.Status.Message)
	}
	// A label that the node has got a moment ago counts.
	nodes := v1.SchemeGroupVersion.WithResource("nodes")
	if _, err := r.client.Patch(context.Background(), nodes, "", "n1", types.MergePatchType, []byte(`{"metadata":{"labels":{"just": "now"}}}`)); err != nil {
		r.t.Fatal(err)
	}
	r.pod("here", `
spec:
  nodeSelector: {just: now}
  restartPolicy: Never
  containers:
  - {name: main, image: setpoint.test/box:1, command: ["true"]}
`)
	r.await("here", "Succeeded", phase(v1.PodSucceeded))
}

// A pod that does not end by itself is killed when its grace is over, and at
// once when asked again with a shorter one.
func force(r *rig) {
	r.pod("deaf", `
spec:
  terminationGracePeriodSeconds: 3600
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, 'trap "" TERM; while :; do sleep 0.1; done']}
`)
	p := r.await("deaf", "ready", ready)
	r.delete("deaf", nil)
	r.await("deaf", "terminating", func(p *v1.Pod) bool { return p.DeletionTimestamp != nil })
	one := int64(1)
	r.delete("deaf", &one)
	r.await("deaf", "gone", gone)
	r.leftNothing(p)
}
