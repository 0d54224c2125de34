package status

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const (
	run = iota + 1000
	made
)

// c is a container that runs (run), was made (made) or exited with a code.
func c(name string, what int, restarts int32) cri.Container {
	k := cri.Container{ID: name + "-id", Name: name, SandboxID: "s", Restarts: restarts, CreatedAt: now.Add(time.Duration(restarts) * time.Second), StartedAt: now, Image: "img", ImageID: "ref"}
	switch what {
	case run:
		k.State = runtimeapi.ContainerState_CONTAINER_RUNNING
	case made:
		k.State = runtimeapi.ContainerState_CONTAINER_CREATED
	default:
		k.State, k.ExitCode, k.FinishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, int32(what), now
	}
	return k
}

func stateOf(cs ...cri.Container) *cri.State {
	return &cri.State{Sandboxes: []cri.Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.1"}}}, Containers: cs}
}

func podOf(policy v1.RestartPolicy, inits []string, names ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Spec: v1.PodSpec{RestartPolicy: policy}}
	for _, n := range inits {
		k := v1.Container{Name: n}
		if n[0] == '+' {
			always := v1.ContainerRestartPolicyAlways
			k.Name, k.RestartPolicy = n[1:], &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, k)
	}
	for _, n := range names {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: n})
	}
	return p
}

func ok(names ...string) map[string]Health {
	m := map[string]Health{}
	for _, n := range names {
		m[n+"-id"] = Health{Started: true, Ready: true}
	}
	return m
}

func conditionOf(s v1.PodStatus, t v1.PodConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == t {
			return string(c.Status) + " " + c.Reason + " " + c.Message
		}
	}
	return "none"
}

// Whose pod the node ended for its own sake learns that it is not to blame.
func TestDisruption(t *testing.T) {
	in := Input{Pod: podOf(v1.RestartPolicyAlways, nil, "a"), State: stateOf(c("a", 137, 0)), Ended: true, Failed: &Failure{Reason: "Evicted", Message: "low", Disruption: true}}
	s := Compute(in)
	if got := conditionOf(s, v1.DisruptionTarget); got != "True TerminationByKubelet low" || s.Phase != v1.PodFailed || s.Reason != "Evicted" || s.Message != "low" {
		t.Errorf("got %s, %s %s %s", got, s.Phase, s.Reason, s.Message)
	}
	in.Failed.Disruption = false
	if got := conditionOf(Compute(in), v1.DisruptionTarget); got != "none" {
		t.Errorf("for its own excess: %s", got)
	}
}

// Containers of a pod that the node refused wait for nothing: kubectl would show
// that they are being created, for ever, rather than why the pod has failed.
func TestRefusedPodHasNoContainers(t *testing.T) {
	in := Input{Pod: podOf(v1.RestartPolicyAlways, []string{"i"}, "a"), State: &cri.State{}, Failed: &Failure{Reason: "OutOfcpu"}}
	s := Compute(in)
	if len(s.InitContainerStatuses)+len(s.ContainerStatuses) != 0 || s.Reason != "OutOfcpu" {
		t.Errorf("got %+v", s)
	}
	in.Pod.Status, in.Failed, in.Ended = s, nil, true // the kubelet was started again
	if again := Compute(in); !Equal(&s, &again) {
		t.Errorf("then\n%+v\nwas\n%+v", again, s)
	}
	in.Pod.Status, in.Failed = v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "a"}}}, &Failure{Reason: "Evicted"}
	if s := Compute(in); len(s.ContainerStatuses) != 1 {
		t.Errorf("one that was begun: %+v", s.ContainerStatuses)
	}
}

func TestPhaseAndConditions(t *testing.T) {
	always, onFailure, never := v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever
	crash := map[string]v1.ContainerStateWaiting{"a": {Reason: "CrashLoopBackOff"}}
	for _, k := range []struct {
		name  string
		in    Input
		phase v1.PodPhase
		ready string
		init  string
	}{
		{"nothing yet", Input{Pod: podOf(always, nil, "a"), State: &cri.State{}}, v1.PodPending, "False ContainersNotReady containers with unready status: [a]", "True  "},
		{"made", Input{Pod: podOf(always, nil, "a"), State: stateOf(c("a", made, 0))}, v1.PodPending, "False ContainersNotReady containers with unready status: [a]", "True  "},
		{"runs, not started", Input{Pod: podOf(always, nil, "a"), State: stateOf(c("a", run, 0))}, v1.PodRunning, "False ContainersNotReady containers with unready status: [a]", "True  "},
		{"ready", Input{Pod: podOf(always, nil, "a", "b"), State: stateOf(c("a", run, 0), c("b", run, 0)), Health: ok("a", "b")}, v1.PodRunning, "True  ", "True  "},
		{"one of two", Input{Pod: podOf(always, nil, "a", "b"), State: stateOf(c("a", run, 0)), Health: ok("a")}, v1.PodPending, "False ContainersNotReady containers with unready status: [b]", "True  "},
		{"crash loop", Input{Pod: podOf(always, nil, "a"), State: stateOf(c("a", 1, 2)), Waiting: crash}, v1.PodRunning, "False ContainersNotReady containers with unready status: [a]", "True  "},
		{"done", Input{Pod: podOf(never, nil, "a"), State: stateOf(c("a", 0, 0))}, v1.PodSucceeded, "False PodCompleted ", "True PodCompleted "},
		{"done, restarts", Input{Pod: podOf(always, nil, "a"), State: stateOf(c("a", 0, 0))}, v1.PodRunning, "False ContainersNotReady containers with unready status: [a]", "True  "},
		{"done, restarts, deleted", Input{Pod: podOf(always, nil, "a"), State: stateOf(c("a", 0, 0)), Ended: true}, v1.PodSucceeded, "False PodCompleted ", "True PodCompleted "},
		{"killed, deleted", Input{Pod: podOf(always, nil, "a"), State: stateOf(c("a", 137, 0)), Ended: true}, v1.PodFailed, "False PodFailed ", "True  "},
		{"failed", Input{Pod: podOf(never, nil, "a", "b"), State: stateOf(c("a", 0, 0), c("b", 2, 0))}, v1.PodFailed, "False PodFailed ", "True  "},
		{"failed, again", Input{Pod: podOf(onFailure, nil, "a"), State: stateOf(c("a", 2, 0))}, v1.PodRunning, "False ContainersNotReady containers with unready status: [a]", "True  "},
		{"one done, one runs", Input{Pod: podOf(never, nil, "a", "b"), State: stateOf(c("a", 0, 0), c("b", run, 0)), Health: ok("b")}, v1.PodRunning, "False ContainersNotReady containers with unready status: [a]", "True  "},
		{"init runs", Input{Pod: podOf(always, []string{"i"}, "a"), State: stateOf(c("i", run, 0)), Health: ok("i")}, v1.PodPending, "False ContainersNotReady containers with unready status: [a]", "False ContainersNotInitialized containers with incomplete status: [i]"},
		{"init failed", Input{Pod: podOf(never, []string{"i"}, "a"), State: stateOf(c("i", 1, 0))}, v1.PodFailed, "False PodFailed ", "False ContainersNotInitialized containers with incomplete status: [i]"},
		{"init failed, again", Input{Pod: podOf(always, []string{"i"}, "a"), State: stateOf(c("i", 1, 0))}, v1.PodPending, "False ContainersNotReady containers with unready status: [a]", "False ContainersNotInitialized containers with incomplete status: [i]"},
		{"init done", Input{Pod: podOf(always, []string{"i"}, "a"), State: stateOf(c("i", 0, 0), c("a", run, 0)), Health: ok("a")}, v1.PodRunning, "True  ", "True  "},
		{"sidecar unready", Input{Pod: podOf(always, []string{"+s"}, "a"), State: stateOf(c("s", run, 0), c("a", run, 0)),
			Health: map[string]Health{"s-id": {Started: true}, "a-id": {Started: true, Ready: true}}}, v1.PodRunning, "False ContainersNotReady containers with unready status: [s]", "True  "},
		{"refused", Input{Pod: podOf(always, nil, "a"), State: &cri.State{}, Failed: &Failure{Reason: "OutOfcpu"}}, v1.PodFailed, "False PodFailed ", "True  "},
	} {
		k.in.Now = now
		s := Compute(k.in)
		if s.Phase != k.phase || conditionOf(s, v1.PodReady) != k.ready || conditionOf(s, v1.PodInitialized) != k.init {
			t.Errorf("%s: phase %s, ready %q, initialized %q; want %s, %q, %q", k.name, s.Phase, conditionOf(s, v1.PodReady), conditionOf(s, v1.PodInitialized), k.phase, k.ready, k.init)
		}
	}
}

// What is computed from its own result is the same: the rule of a quiet
// cluster.
func TestFixedPoint(t *testing.T) {
	in := Input{Now: now, Pod: podOf(v1.RestartPolicyAlways, []string{"i", "+s"}, "a", "b"), HostIPs: []string{"192.0.2.1"},
		State:   stateOf(c("b", 1, 4), c("a", run, 1), c("s", run, 0), c("i", 0, 0)),
		Waiting: map[string]v1.ContainerStateWaiting{"b": {Reason: "CrashLoopBackOff"}}, Health: ok("a", "s")}
	first := Compute(in)
	in.Pod.Status = first
	in.Now = now.Add(time.Hour)
	if second := Compute(in); !Equal(&first, &second) {
		t.Errorf("computed again:\n%+v\nfrom\n%+v", second, first)
	}
	// A transition time moves with the status only.
	in.Health = nil
	third := Compute(in)
	for _, k := range third.Conditions {
		want := now
		if k.Type == v1.PodReady && conditionOf(first, v1.PodReady)[:4] == "True" {
			want = in.Now
		}
		if !k.LastTransitionTime.Time.Equal(want) && k.Type != v1.PodScheduled {
			t.Errorf("condition %s moved at %v, want %v", k.Type, k.LastTransitionTime, want)
		}
	}
}

func TestContainerStates(t *testing.T) {
	in := Input{Now: now, Pod: podOf(v1.RestartPolicyAlways, nil, "a"), State: stateOf(c("a", run, 1), func() cri.Container {
		k := c("a", 3, 0)
		k.ID, k.Reason = "before", "OOMKilled"
		return k
	}()), Health: ok("a"), Messages: map[string]string{"before": "last words"}}
	s := Compute(in).ContainerStatuses[0]
	if !s.Ready || s.RestartCount != 1 || s.State.Running == nil || s.ContainerID != "containerd://a-id" {
		t.Errorf("status is %+v", s)
	}
	if l := s.LastTerminationState.Terminated; l == nil || l.ExitCode != 3 || l.Reason != "OOMKilled" || l.Message != "last words" || l.ContainerID != "containerd://before" {
		t.Errorf("last state is %+v", l)
	}
	// A runtime that says OOMKilled of a container that runs is not believed.
	in.State.Containers[0].Reason = "OOMKilled"
	if s := Compute(in).ContainerStatuses[0]; s.State.Terminated != nil {
		t.Errorf("status is %+v", s)
	}
	// The runtime lost a running container.
	in.Pod.Status = Compute(in)
	in.State = stateOf()
	s = Compute(in).ContainerStatuses[0]
	if s.State.Waiting == nil || s.RestartCount != 2 || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.Reason != reasonUnknown {
		t.Errorf("status is %+v", s)
	}
	// What has ended never comes back.
	in.Pod.Status.Phase = v1.PodFailed
	in.State = stateOf(c("a", run, 1))
	if p := Compute(in).Phase; p != v1.PodFailed {
		t.Errorf("phase is %s", p)
	}
}

func TestGates(t *testing.T) {
	p := podOf(v1.RestartPolicyAlways, nil, "a")
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "x/ready"}}
	in := Input{Now: now, Pod: p, State: stateOf(c("a", run, 0)), Health: ok("a")}
	if got, want := conditionOf(Compute(in), v1.PodReady), `False ReadinessGatesNotReady corresponding condition of pod readiness gate "x/ready" does not exist.`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Status.Conditions = []v1.PodCondition{{Type: "x/ready", Status: v1.ConditionFalse}}
	if got, want := conditionOf(Compute(in), v1.PodReady), `False ReadinessGatesNotReady the status of pod readiness gate "x/ready" is not "True", but False`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Status.Conditions[0].Status = v1.ConditionTrue
	s := Compute(in)
	if got := conditionOf(s, v1.PodReady); got != "True  " {
		t.Errorf("got %q", got)
	}
	if conditionOf(s, "x/ready") != "True  " {
		t.Errorf("the condition of others is lost: %+v", s.Conditions)
	}
}

func TestRestarts(t *testing.T) {
	never := v1.ContainerRestartPolicyNever
	spec := &v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways}
	k := &v1.Container{RestartPolicy: &never, RestartPolicyRules: []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestart,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}}}}}
	if Restarts(spec, k, 1) || !Restarts(spec, k, 42) || !Restarts(spec, &v1.Container{}, 0) {
		t.Error("the container's rules do not come before its policy, or that before the pod's")
	}
	spec.RestartPolicy = v1.RestartPolicyOnFailure
	if Restarts(spec, &v1.Container{}, 0) || !Restarts(spec, &v1.Container{}, 1) {
		t.Error("OnFailure does not look at the code")
	}
}
