package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// mainExists tells whether the pod was initialized in this sandbox: a main
// container was made in it.
func (p *planner) mainExists(sandbox *cri.Sandbox) bool {
	if sandbox == nil {
		return false
	}
	for i := range p.Pod.Spec.Containers {
		if c := p.State.Latest(p.Pod.Spec.Containers[i].Name); c != nil && c.SandboxID == sandbox.ID {
			return true
		}
	}
	return false
}

// completed tells whether every main container ended for good.
func (p *planner) completed() bool {
	spec := &p.Pod.Spec
	for i := range spec.Containers {
		c := p.State.Latest(spec.Containers[i].Name)
		if c == nil || !c.Exited() || status.Restarts(spec, &spec.Containers[i], c.ExitCode) || p.Resize[c.ID] {
			return false
		}
	}
	return len(spec.Containers) > 0
}

// init takes an init container a step further, and tells whether the next one
// may go on, and whether the pod has failed for good.
func (p *planner) init(c *v1.Container, sandbox *cri.Sandbox, initialized bool) (done, failed bool) {
	have := p.State.Latest(c.Name)
	if have != nil && (sandbox == nil || have.SandboxID != sandbox.ID) && !status.IsSidecar(c) {
		// It ran in a sandbox that is gone: what it prepared there is gone too.
		if have.Exited() && have.ExitCode != 0 && !status.Restarts(&p.Pod.Spec, c, have.ExitCode) && c.RestartPolicy == nil && p.Pod.Spec.RestartPolicy == v1.RestartPolicyNever {
			return false, true
		}
		have = nil
	}
	if status.IsSidecar(c) {
		p.container(c, sandbox)
		return have != nil && have.Running() && p.Health[have.ID].Started, false
	}
	switch {
	case initialized:
		return true, false
	case have == nil:
		p.start(c, sandbox)
		return false, false
	case have.Running():
		p.unhealthy(c, have)
		return false, false
	case have.Exited() && have.ExitCode == 0:
		return true, false
	case have.Exited() && initFailsPod(&p.Pod.Spec, c, have.ExitCode):
		return false, true
	}
	p.start(c, sandbox)
	return false, false
}

// initFailsPod tells whether an init container's exit ends the pod. Unlike a
// main one it is run again under the policies Always and OnFailure.
func initFailsPod(spec *v1.PodSpec, c *v1.Container, exit int32) bool {
	if c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0 {
		return !status.Restarts(spec, c, exit)
	}
	return spec.RestartPolicy == v1.RestartPolicyNever
}

// container takes a main container or a sidecar a step further.
func (p *planner) container(c *v1.Container, sandbox *cri.Sandbox) {
	have := p.State.Latest(c.Name)
	switch {
	case have == nil:
		p.start(c, sandbox)
	case have.Running():
		if have.Hash != "" && have.Hash != cri.Hash(c) {
			p.do(Action{Kind: StopContainer, Container: c.Name, ID: have.ID, Grace: grace(p.Pod),
				Why: "Container " + c.Name + " definition changed, will be restarted"})
			return
		}
		if restart, wanted := p.Resize[have.ID]; wanted && restart {
			p.do(Action{Kind: StopContainer, Container: c.Name, ID: have.ID, Grace: grace(p.Pod),
				Why: "Container " + c.Name + " resize requires restart", Resize: true})
			return
		} else if wanted {
			p.do(Action{Kind: ResizeContainer, Container: c.Name, ID: have.ID})
		}
		p.unhealthy(c, have)
	case have.Exited():
		old := sandbox == nil || have.SandboxID != sandbox.ID
		if status.Restarts(&p.Pod.Spec, c, have.ExitCode) || old && status.IsSidecar(c) || p.Resize[have.ID] {
			p.start(c, sandbox)
			if _, said := p.plan.Waiting[c.Name]; p.Resize[have.ID] && !said {
				// It did not end for good, whatever its exit code says.
				p.plan.Waiting[c.Name] = v1.ContainerStateWaiting{Reason: "ContainerCreating"}
			}
		}
	case have.State == runtimeapi.ContainerState_CONTAINER_UNKNOWN:
		p.do(Action{Kind: StopContainer, Container: c.Name, ID: have.ID, Grace: grace(p.Pod), Why: "Container " + c.Name + " is in an unknown state, try killing it before restart"})
	default: // created and never started: made anew
		p.start(c, sandbox)
	}
}

// unhealthy stops a running container whose probe failed.
func (p *planner) unhealthy(c *v1.Container, have *cri.Container) {
	h := p.Health[have.ID]
	if h.Unhealthy == "" {
		return
	}
	g := grace(p.Pod)
	if h.Grace != nil {
		g = time.Duration(*h.Grace) * time.Second
	}
	p.do(Action{Kind: StopContainer, Container: c.Name, ID: have.ID, Grace: g, Why: h.Unhealthy})
}

// start takes a container that is to run towards it: its images, and when
// sandbox and volumes are there as well, the start.
func (p *planner) start(c *v1.Container, sandbox *cri.Sandbox) {
	if h, held := p.Holds[c.Name]; held && p.Now.Before(h.Until) {
		p.plan.Waiting[c.Name] = h.Wait
		p.wake(h.Until)
		return
	} else if held && h.Wait.Reason != "" && !running(p.State, c.Name) {
		p.plan.Waiting[c.Name] = h.Wait // until the start succeeds
	}
	img, known := p.Images[c.Name]
	there := p.pulled(c, img, known, Action{Kind: PullImage, Container: c.Name})
	for i := range c.VolumeMounts {
		if v := imageVolume(p.Pod, c.VolumeMounts[i].Name); v != nil {
			img, known := p.Volumes[v.Name]
			there = p.pulled(c, img, known, Action{Kind: PullVolume, Volume: v.Name}) && there
		}
	}
	if there && sandbox != nil && p.Mounted {
		p.do(Action{Kind: StartContainer, Container: c.Name})
	}
}

// pulled takes one of the images that a container needs towards being there,
// and tells whether it is.
func (p *planner) pulled(c *v1.Container, img Image, known bool, pull Action) bool {
	if img.Ref != "" {
		return true
	}
	if !known || !p.Now.Before(img.Retry) {
		p.do(pull)
	} else {
		p.wake(img.Retry)
	}
	if img.Wait.Reason != "" || known && p.Now.Before(img.Retry) {
		p.plan.Waiting[c.Name] = img.Wait
	}
	return false
}

func running(s *cri.State, name string) bool {
	c := s.Latest(name)
	return c != nil && c.Running()
}
