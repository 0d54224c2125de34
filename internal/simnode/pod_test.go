package simnode

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestPodSteps(t *testing.T) {
	after := annotate(ExitAfter, "5s")
	failing := annotate(ExitAfter, "5s", ExitCode, "3")
	hold := func(p *corev1.Pod) { p.Finalizers = []string{"batch.kubernetes.io/job-tracking"} }
	end := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	for _, test := range []struct {
		name     string
		pod      *corev1.Pod
		at       time.Duration // after the start
		what     string
		wait     time.Duration
		phase    corev1.PodPhase
		restarts int32
	}{
		{name: "bound", pod: makePod(), what: "started the containers", phase: corev1.PodRunning},
		{name: "runs", pod: makePod(run)},
		{name: "ended", pod: makePod(end)},
		{name: "will end", pod: makePod(after, run), at: 2 * time.Second, wait: 3 * time.Second},
		{name: "ends", pod: makePod(after, restart(corev1.RestartPolicyNever), run), at: 5 * time.Second, what: "the containers ended", phase: corev1.PodSucceeded},
		{name: "ends with success", pod: makePod(after, restart(corev1.RestartPolicyOnFailure), run), at: 5 * time.Second, what: "the containers ended", phase: corev1.PodSucceeded},
		{name: "fails", pod: makePod(failing, restart(corev1.RestartPolicyNever), run), at: 5 * time.Second, what: "the containers ended", phase: corev1.PodFailed},
		{name: "fails and is restarted", pod: makePod(failing, restart(corev1.RestartPolicyOnFailure), run), at: 5 * time.Second, what: "restarted the containers", phase: corev1.PodRunning, restarts: 1},
		{name: "always restarted", pod: makePod(after, run), at: 5 * time.Second, what: "restarted the containers", phase: corev1.PodRunning, restarts: 1},
		{name: "restarts are no faster than one a second", pod: makePod(annotate(ExitAfter, "1ms"), run), wait: time.Second},
		{name: "new image", pod: makePod(run, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:2" }), what: "started the containers", phase: corev1.PodRunning, restarts: 1},
		{name: "marked not ready while the node was away", pod: makePod(run, func(p *corev1.Pod) { p.Status.Conditions[4].Status = corev1.ConditionFalse }), what: "started the containers", phase: corev1.PodRunning},
		{name: "deleted", pod: makePod(run, deleted(30)), what: "the pod has ended"},
		{name: "deleted before it started", pod: makePod(deleted(30)), what: "the pod has ended"},
		{name: "deleted and held", pod: makePod(run, hold, deleted(30)), what: "stopped the containers", phase: corev1.PodFailed},
		{name: "stopped and held", pod: makePod(run, hold, deleted(30), end), what: "the pod has ended"},
		{name: "held after its end", pod: makePod(run, hold, deleted(0), end)},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := podStep(test.pod, []string{"10.0.0.1"}, []string{"10.1.0.1"}, now.Add(test.at))
			if got.what != test.what || got.wait != test.wait {
				t.Fatalf("got %q, wait %s; want %q, wait %s", got.what, got.wait, test.what, test.wait)
			}
			if got.status == nil {
				if test.phase != "" {
					t.Fatalf("no status, want phase %s", test.phase)
				}
				return
			}
			if got.status.Phase != test.phase || got.status.ContainerStatuses[0].RestartCount != test.restarts {
				t.Errorf("got %s, %d restarts; want %s, %d", got.status.Phase, got.status.ContainerStatuses[0].RestartCount, test.phase, test.restarts)
			}
			if ready := condition(got.status, corev1.PodReady).Status; (ready == corev1.ConditionTrue) != (test.phase == corev1.PodRunning) {
				t.Errorf("phase %s, Ready=%s", test.phase, ready)
			}
		})
	}
}

func TestRunningIsWrittenOnce(t *testing.T) {
	p := makePod()
	run(p)
	want := corev1.ContainerStatus{Name: "c", Image: "app:1", ImageID: "sim://app:1", ContainerID: containerID(p, "c", 0), Ready: true, Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.Status.ContainerStatuses[0].State.Running.StartedAt}}}
	if diff := cmp.Diff([]corev1.ContainerStatus{want}, p.Status.ContainerStatuses); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if p.Status.HostIP != "10.0.0.1" || p.Status.PodIP != "10.1.0.1" || p.Status.StartTime == nil {
		t.Errorf("status %+v", p.Status)
	}
	if again := running(p, []string{"10.0.0.1"}, []string{"10.1.0.1"}, now.Add(time.Hour)); again != nil {
		t.Errorf("written again:\n%s", cmp.Diff(p.Status, *again))
	}
}

func TestInitContainersAndGates(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	p := makePod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}, {Name: "sidecar", Image: "s", RestartPolicy: &always}}
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
	}, run)
	if s := p.Status.InitContainerStatuses; s[0].State.Terminated == nil || s[1].State.Running == nil || !s[0].Ready || !s[1].Ready {
		t.Errorf("init containers %+v", s)
	}
	if c := condition(&p.Status, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" {
		t.Errorf("with a closed gate: %+v", c)
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "example.com/lb", Status: corev1.ConditionTrue})
	run(p)
	if c := condition(&p.Status, corev1.PodReady); c.Status != corev1.ConditionTrue || c.Reason != "" {
		t.Errorf("with an open gate: %+v", c)
	}
	never := makePod(annotate(NotReady, "true"), run)
	if c := condition(&never.Status, corev1.PodReady); c.Status != corev1.ConditionFalse || never.Status.Phase != corev1.PodRunning {
		t.Errorf("never ready: %+v", c)
	}
}

// What steady says must be what running would do, whatever a pod is like.
func TestSteadyIsRunning(t *testing.T) {
	break1 := []func(*corev1.Pod){
		func(p *corev1.Pod) {},
		func(p *corev1.Pod) { p.Generation++ },
		func(p *corev1.Pod) { p.Status.PodIP = "10.9.9.9" },
		func(p *corev1.Pod) { p.Status.HostIP = "" },
		func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:2" },
		func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d"}) },
		func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false },
		func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} },
		func(p *corev1.Pod) { p.Status.Conditions = p.Status.Conditions[:2] },
		func(p *corev1.Pod) { p.Status.Conditions[2].Status = corev1.ConditionFalse },
		func(p *corev1.Pod) { p.Status.Conditions[4].Reason = "Odd" },
		func(p *corev1.Pod) { p.Annotations = map[string]string{NotReady: "true"} },
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
	}
	for i, change := range break1 {
		p := makePod(run, change)
		if got := running(p, []string{"10.0.0.1"}, []string{"10.1.0.1"}, now); steady(p, []string{"10.0.0.1"}, []string{"10.1.0.1"}) != (got == nil) {
			t.Errorf("pod %d: steady differs from running:\n%+v", i, got)
		}
	}
}
