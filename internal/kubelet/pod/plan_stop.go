package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// stop is the plan of a pod that is to end.
func (p *planner) stop() {
	if p.stopContainers() {
		return
	}
	for i := range p.State.Sandboxes {
		if b := &p.State.Sandboxes[i]; b.Ready {
			p.do(Action{Kind: StopSandbox, ID: b.ID})
		}
	}
	if p.State.Alive() || p.starting() || p.stopping() {
		return
	}
	if p.Devices {
		// Before the status says that the pod has ended: then its claims are
		// given to others.
		p.do(Action{Kind: GiveBack})
		return
	}
	p.plan.Ended = true
	if !p.Stop.Delete {
		if p.Mounted {
			p.do(Action{Kind: CleanUp})
		}
		return
	}
	switch {
	case !p.State.Empty():
		p.do(Action{Kind: RemoveRuntime})
	case p.Dirty || p.Mounted:
		p.do(Action{Kind: CleanUp})
	case !p.Stop.Gone && p.Stop.Reported:
		p.do(Action{Kind: DeletePod})
	}
}

// starting tells whether a step is under way that may bring something to life
// still.
func (p *planner) starting() bool {
	return p.Busy[string(CreateSandbox)] || p.Busy[string(StartContainer)] || p.Busy[string(MountVolumes)]
}

// stopping tells whether a sandbox is being stopped. The runtime shows it as
// not ready while its network is still being taken down, and taking it down
// from two sides at once fails.
func (p *planner) stopping() bool {
	for i := range p.State.Sandboxes {
		if p.Busy[Action{Kind: StopSandbox, ID: p.State.Sandboxes[i].ID}.Key()] {
			return true
		}
	}
	return false
}

// stopContainers stops what runs, and tells whether anything still does.
// Sidecars outlive the main containers, which may need them to the end.
func (p *planner) stopContainers() bool {
	sidecar := map[string]int{}
	for i := range p.Pod.Spec.InitContainers {
		if c := &p.Pod.Spec.InitContainers[i]; status.IsSidecar(c) {
			sidecar[c.Name] = i + 1
		}
	}
	left := max(p.Stop.Deadline.Sub(p.Now), 0)
	var last *cri.Container
	busy := false
	for i := range p.State.Containers {
		c := &p.State.Containers[i]
		if c.Exited() {
			continue
		}
		if c.State == runtimeapi.ContainerState_CONTAINER_CREATED {
			continue // never ran: goes with its sandbox
		}
		if sidecar[c.Name] == 0 {
			busy = true
			p.do(Action{Kind: StopContainer, Container: c.Name, ID: c.ID, Grace: left, Why: "Stopping container " + c.Name})
		} else if last == nil || sidecar[c.Name] > sidecar[last.Name] {
			last = c
		}
	}
	if !busy && last != nil {
		p.do(Action{Kind: StopContainer, Container: last.Name, ID: last.ID, Grace: left, Why: "Stopping container " + last.Name})
	}
	return busy || last != nil
}

// grace is how long a container of the pod has to end.
func grace(pod *v1.Pod) time.Duration {
	s := int64(v1.DefaultTerminationGracePeriodSeconds)
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		s = *g
	}
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		s = *g
	}
	return time.Duration(s) * time.Second
}
