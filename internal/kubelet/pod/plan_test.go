package pod

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// podOf makes a pod of container names: "side+" is a sidecar, "init-" an init
// container, others are main ones.
func podOf(policy v1.RestartPolicy, names ...string) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy}}
	always := v1.ContainerRestartPolicyAlways
	for _, n := range names {
		switch {
		case strings.HasSuffix(n, "+"):
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: strings.TrimSuffix(n, "+"), RestartPolicy: &always})
		case strings.HasSuffix(n, "-"):
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: strings.TrimSuffix(n, "-")})
		default:
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: n})
		}
	}
	return p
}

// showing has all main containers mount a volume that shows an image.
func showing(p *v1.Pod, volume string) *v1.Pod {
	p.Spec.Volumes = []v1.Volume{{Name: volume, VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "i"}}}}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = []v1.VolumeMount{{Name: volume, MountPath: "/v"}}
	}
	return p
}

// stateOf makes a runtime state of words: "box" is a ready sandbox, "oldbox"
// one that is not; "a:run", "a:new", "a:0", "a:1" are containers that run, were
// never started, or exited with a code; "a@old:0" one in the old sandbox.
func stateOf(words ...string) *cri.State {
	s := &cri.State{}
	for i, w := range words {
		at := now.Add(-time.Duration(i) * time.Second)
		name, what, isContainer := strings.Cut(w, ":")
		if !isContainer {
			s.Sandboxes = append(s.Sandboxes, cri.Sandbox{ID: w, Ready: w == "box", CreatedAt: at})
			continue
		}
		c := cri.Container{SandboxID: "box", CreatedAt: at}
		if n, old := strings.CutSuffix(name, "@old"); old {
			name, c.SandboxID = n, "oldbox"
		}
		c.ID, c.Name = name+"-id", name
		switch what {
		case "run":
			c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
		case "new":
			c.State = runtimeapi.ContainerState_CONTAINER_CREATED
		case "unknown":
			c.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
		default:
			c.State = runtimeapi.ContainerState_CONTAINER_EXITED
			c.ExitCode = int32(what[0] - '0')
		}
		s.Containers = append(s.Containers, c)
	}
	return s
}

// text is a plan in words.
func text(p Plan) string {
	var out []string
	for _, a := range p.Actions {
		out = append(out, strings.TrimSpace(string(a.Kind)+" "+a.Container+a.Volume+map[bool]string{true: a.ID}[a.Container == ""]))
	}
	if p.Completed {
		out = append(out, "COMPLETED")
	}
	if p.Ended {
		out = append(out, "ENDED")
	}
	return strings.Join(out, "; ")
}

func TestPlan(t *testing.T) {
	always, onFailure, never := v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever
	ref := Image{Ref: "x"}
	up := Health{Health: status.Health{Started: true, Ready: true}}
	stop := &Stop{Deadline: now.Add(30 * time.Second)}
	deleted := &Stop{Deadline: now.Add(30 * time.Second), Delete: true, Reported: true}
	for _, c := range []struct {
		name string
		in   Input
		want string
	}{
		{"new", Input{Pod: podOf(always, "a", "b"), State: stateOf()}, "mount volumes; create sandbox; pull image a; pull image b"},
		{"steps being taken are not taken twice", Input{Pod: podOf(always, "a"), State: stateOf(),
			Busy: map[string]bool{"mount volumes": true, "create sandbox": true}}, "pull image a"},
		{"image first", Input{Pod: podOf(always, "a"), State: stateOf("box"), Mounted: true}, "pull image a"},
		{"start in order", Input{Pod: podOf(always, "a", "b"), State: stateOf("box"), Mounted: true, Images: map[string]Image{"a": ref, "b": ref}}, "start container a"},
		{"no start without volumes", Input{Pod: podOf(always, "a"), State: stateOf("box"), Images: map[string]Image{"a": ref}}, "mount volumes"},
		{"image that fails is looked at again in time", Input{Pod: podOf(always, "a"), State: stateOf("box"), Mounted: true,
			Images: map[string]Image{"a": {Retry: now.Add(time.Second)}}}, ""},
		{"one that cannot be pulled does not stop the other", Input{Pod: podOf(always, "a", "b"), State: stateOf("box"), Mounted: true,
			Images: map[string]Image{"a": {Retry: now.Add(time.Second)}, "b": ref}}, "start container b"},
		{"image of a volume", Input{Pod: showing(podOf(always, "a", "b"), "v"), State: stateOf("box"), Mounted: true, Images: map[string]Image{"a": ref}}, "pull volume v; pull image b"},
		{"image of a volume is there", Input{Pod: showing(podOf(always, "a"), "v"), State: stateOf("box"), Mounted: true, Images: map[string]Image{"a": ref},
			Volumes: map[string]Image{"v": ref}}, "start container a"},
		{"image of a volume cannot be pulled", Input{Pod: showing(podOf(always, "a"), "v"), State: stateOf("box"), Mounted: true, Images: map[string]Image{"a": ref},
			Volumes: map[string]Image{"v": {Retry: now.Add(time.Second)}}}, ""},
		{"devices first", Input{Pod: podOf(never, "a"), State: stateOf("oldbox", "a@old:0"), Stop: stop, Devices: true}, "give devices back"},
		{"devices are being given back", Input{Pod: podOf(never, "a"), State: stateOf("oldbox", "a@old:0"), Stop: deleted, Devices: true, Dirty: true,
			Busy: map[string]bool{"give devices back": true}}, ""},
		{"not while something runs", Input{Pod: podOf(never, "a"), State: stateOf("box", "a:run"), Stop: stop, Devices: true}, "stop container a"},
		{"at rest", Input{Pod: podOf(always, "a"), State: stateOf("box", "a:run"), Mounted: true, Health: map[string]Health{"a-id": up}}, ""},
		{"died", Input{Pod: podOf(always, "a"), State: stateOf("box", "a:0"), Mounted: true}, "pull image a"},
		{"died, in back-off", Input{Pod: podOf(always, "a"), State: stateOf("box", "a:1"), Mounted: true,
			Holds: map[string]Hold{"a": {Until: now.Add(time.Second)}}}, ""},
		{"done", Input{Pod: podOf(onFailure, "a"), State: stateOf("box", "a:0"), Mounted: true}, "COMPLETED"},
		{"failed, again", Input{Pod: podOf(onFailure, "a"), State: stateOf("box", "a:1"), Mounted: true}, "pull image a"},
		{"failed for good", Input{Pod: podOf(never, "a"), State: stateOf("box", "a:1"), Mounted: true}, "COMPLETED"},
		{"one of two done", Input{Pod: podOf(never, "a", "b"), State: stateOf("box", "a:0", "b:run"), Mounted: true}, ""},
		{"created and never started", Input{Pod: podOf(never, "a"), State: stateOf("box", "a:new"), Mounted: true, Images: map[string]Image{"a": ref}}, "start container a"},
		{"unknown", Input{Pod: podOf(always, "a"), State: stateOf("box", "a:unknown"), Mounted: true}, "stop container a"},
		{"unhealthy", Input{Pod: podOf(always, "a"), State: stateOf("box", "a:run"), Mounted: true,
			Health: map[string]Health{"a-id": {Unhealthy: "it failed"}}}, "stop container a"},

		{"init first", Input{Pod: podOf(always, "i-", "j-", "a"), State: stateOf("box"), Mounted: true, Images: map[string]Image{"i": ref}}, "start container i"},
		{"init runs", Input{Pod: podOf(always, "i-", "a"), State: stateOf("box", "i:run"), Mounted: true}, ""},
		{"init done", Input{Pod: podOf(always, "i-", "j-", "a"), State: stateOf("box", "i:0"), Mounted: true}, "pull image j"},
		{"all init done", Input{Pod: podOf(always, "i-", "a"), State: stateOf("box", "i:0"), Mounted: true}, "pull image a"},
		{"init failed, again", Input{Pod: podOf(onFailure, "i-", "a"), State: stateOf("box", "i:1"), Mounted: true}, "pull image i"},
		{"init failed for good", Input{Pod: podOf(never, "i-", "a"), State: stateOf("box", "i:1"), Mounted: true}, "COMPLETED"},
		{"init again in a new sandbox", Input{Pod: podOf(always, "i-", "a"), State: stateOf("box", "oldbox", "i@old:0", "a@old:1"), Mounted: true}, "pull image i"},
		{"init forgotten, main is there", Input{Pod: podOf(always, "i-", "a"), State: stateOf("box", "a:run"), Mounted: true, Health: map[string]Health{"a-id": up}}, ""},
		{"sidecar not started holds the main back", Input{Pod: podOf(always, "s+", "a"), State: stateOf("box", "s:run"), Mounted: true}, ""},
		{"sidecar started", Input{Pod: podOf(always, "s+", "a"), State: stateOf("box", "s:run"), Mounted: true, Health: map[string]Health{"s-id": up}}, "pull image a"},
		{"sidecar died", Input{Pod: podOf(never, "s+", "a"), State: stateOf("box", "s:1", "a:run"), Mounted: true, Health: map[string]Health{"a-id": up}}, "pull image s"},
		{"main done, sidecar runs", Input{Pod: podOf(never, "s+", "a"), State: stateOf("box", "s:run", "a:0"), Mounted: true, Health: map[string]Health{"s-id": up}}, "COMPLETED"},

		{"sandbox died", Input{Pod: podOf(always, "a"), State: stateOf("oldbox", "a@old:1"), Mounted: true}, "create sandbox; pull image a"},
		{"sandbox died, container survived", Input{Pod: podOf(always, "a"), State: stateOf("oldbox", "a@old:run"), Mounted: true, Health: map[string]Health{"a-id": up}}, "stop container a"},
		{"sandbox died when all was done", Input{Pod: podOf(never, "a"), State: stateOf("oldbox", "a@old:0"), Mounted: true}, "COMPLETED"},
		{"step held after a failure", Input{Pod: podOf(always, "a"), State: stateOf(), Mounted: true,
			Holds: map[string]Hold{"/create sandbox": {Until: now.Add(time.Second)}}, Busy: map[string]bool{"pull image/a": true}}, ""},

		{"stop", Input{Pod: podOf(always, "s+", "a", "b"), State: stateOf("box", "s:run", "a:run", "b:run"), Stop: stop}, "stop container a; stop container b"},
		{"sidecars last, the last one first", Input{Pod: podOf(always, "s+", "t+", "a"), State: stateOf("box", "s:run", "t:run", "a:0"), Stop: stop}, "stop container t"},
		{"then the sandbox", Input{Pod: podOf(always, "a"), State: stateOf("box", "a:0"), Stop: stop, Mounted: true}, "stop sandbox box"},
		{"then volumes", Input{Pod: podOf(always, "a"), State: stateOf("oldbox", "a@old:0"), Stop: stop, Mounted: true}, "clean up; ENDED"},
		{"and it stays", Input{Pod: podOf(always, "a"), State: stateOf("oldbox", "a@old:0"), Stop: stop}, "ENDED"},
		{"what is being started is waited for", Input{Pod: podOf(always, "a"), State: stateOf(), Stop: stop, Busy: map[string]bool{"create sandbox": true}}, ""},
		{"deleted", Input{Pod: podOf(always, "a"), State: stateOf("oldbox", "a@old:0"), Stop: deleted, Dirty: true}, "remove sandboxes; ENDED"},
		{"deleted, its network not down yet", Input{Pod: podOf(always, "a"), State: stateOf("oldbox", "a@old:0"), Stop: deleted, Dirty: true,
			Busy: map[string]bool{"stop sandbox/oldbox": true}}, ""},
		{"deleted, traces", Input{Pod: podOf(always, "a"), State: stateOf(), Stop: deleted, Dirty: true}, "clean up; ENDED"},
		{"deleted, told", Input{Pod: podOf(always, "a"), State: stateOf(), Stop: deleted}, "delete pod; ENDED"},
		{"deleted, not told before its last status is", Input{Pod: podOf(always, "a"), State: stateOf(), Stop: &Stop{Delete: true}}, "ENDED"},
		{"gone", Input{Pod: podOf(always, "a"), State: stateOf(), Stop: &Stop{Delete: true, Gone: true, Reported: true}}, "ENDED"},
		{"a container that never ran does not hold the end up", Input{Pod: podOf(always, "a"), State: stateOf("oldbox", "a@old:new"), Stop: deleted}, "remove sandboxes; ENDED"},
	} {
		c.in.Now = now
		if got := text(Make(c.in)); got != c.want {
			t.Errorf("%s: plan is %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPlanSaysWhy(t *testing.T) {
	wait := v1.ContainerStateWaiting{Reason: CrashLoopBackOff}
	in := Input{Now: now, Pod: podOf(v1.RestartPolicyAlways, "a"), State: stateOf("box", "a:1"), Mounted: true,
		Holds: map[string]Hold{"a": {Until: now.Add(7 * time.Second), Wait: wait}}}
	p := Make(in)
	if p.Waiting["a"] != wait || !p.Wake.Equal(now.Add(7*time.Second)) {
		t.Errorf("plan is %+v", p)
	}
	in.Now = now.Add(8 * time.Second) // over, and not started yet: the status does not flicker
	if p = Make(in); p.Waiting["a"] != wait {
		t.Errorf("plan is %+v", p)
	}
}

func TestNextDelay(t *testing.T) {
	var c *crash
	finished := now
	var got []time.Duration
	for range 9 {
		d := nextDelay(c, finished)
		got = append(got, d/time.Second)
		c = &crash{delay: d, ended: finished}
		finished = finished.Add(d + time.Second)
	}
	want := []time.Duration{0, 10, 20, 40, 80, 160, 300, 300, 300}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("delays are %v, want %v", got, want)
		}
	}
	if d := nextDelay(c, c.ended.Add(crashReset+time.Second)); d != 0 {
		t.Errorf("after it ran well: %v", d)
	}
	for restarts, want := range map[int32]time.Duration{1: 10 * time.Second, 3: 40 * time.Second, 50: 300 * time.Second} {
		if got := adoptedDelay(restarts); got != want {
			t.Errorf("adopted after %d restarts: %v, want %v", restarts, got, want)
		}
	}
}
