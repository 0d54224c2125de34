// Package pod brings one pod into being on this node, keeps it as its spec
// says and takes it away.
//
//	         wake (spec, runtime, probe, object, time)
//	           |
//	Worker: observe --> Make (pure) --> steps, each in a goroutine
//	           ^                              |
//	           +------------ result ----------+
//
// Every look starts from what is there: the pod as the API server shows it and
// what the runtime has. Nothing of importance is remembered, so a kubelet that
// is killed between any two steps goes on with the next.
//
// Concurrency: a Worker's fields belong to its one goroutine; steps run beside
// it and hand back a function that it applies.
//
// Failure: a step that fails is tried again after a while, and the status and
// an event say why.
package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// Kind is a step that a worker takes.
type Kind string

const (
	MountVolumes   Kind = "mount volumes"
	CreateSandbox  Kind = "create sandbox"
	PullImage      Kind = "pull image"
	StartContainer Kind = "start container"
	StopContainer  Kind = "stop container"
	StopSandbox    Kind = "stop sandbox"
	RemoveRuntime  Kind = "remove sandboxes"
	CleanUp        Kind = "clean up"
	DeletePod      Kind = "delete pod"
)

// Action is one step. Steps with different keys may run at the same time.
type Action struct {
	Kind      Kind
	Container string        // name, of a container's steps
	ID        string        // of the container or sandbox, where it exists
	Grace     time.Duration // StopContainer
	Why       string        // StopContainer: for the event
}

// Key tells a step that is being taken already from a new one.
func (a Action) Key() string {
	switch a.Kind {
	case PullImage:
		return string(a.Kind) + "/" + a.Container
	case StopContainer, StopSandbox:
		return string(a.Kind) + "/" + a.ID
	}
	// Of the others a pod takes one at a time: containers start in order.
	return string(a.Kind)
}

// Stop says that the pod is to end.
type Stop struct {
	Deadline time.Time // containers are killed then
	Delete   bool      // and that nothing of it is to stay
	// Gone: the API server shows the pod no more, so there is nothing to
	// report to and nothing to delete.
	Gone bool
	// Reported: the last status has been written.
	Reported bool
}

// Image is what is known of a container's image.
type Image struct {
	Ref   string    // not empty: it is there, for the next start
	Retry time.Time // Ref empty: when to look again
	Wait  v1.ContainerStateWaiting
}

// Hold keeps a container from being started for a while.
type Hold struct {
	Until time.Time
	Wait  v1.ContainerStateWaiting
}

// held is the name under which a kind of step that failed is held; no
// container has such a name.
func held(k Kind) string { return "/" + string(k) }

// Health is what the probes say about a running container.
type Health struct {
	status.Health
	// Unhealthy, when not empty, says why the container must be restarted.
	Unhealthy string
	// Grace, when not nil, is the probe's own grace period in seconds.
	Grace *int64
}

// Input is everything a plan follows from.
type Input struct {
	Now     time.Time
	Pod     *v1.Pod
	State   *cri.State
	Stop    *Stop // nil: the pod is to run
	Mounted bool  // the volumes are there
	Dirty   bool  // there is something of the pod on the node beside the runtime: volumes, cgroup
	Images  map[string]Image
	Holds   map[string]Hold   // by container name, and of kinds of steps that failed
	Health  map[string]Health // by container id
	Busy    map[string]bool   // keys of the steps being taken
}

// Plan is what to do next.
type Plan struct {
	Actions []Action
	// Waiting says why containers do not run, for the status.
	Waiting map[string]v1.ContainerStateWaiting
	// Wake is when to look again, whatever happens; zero: no need.
	Wake time.Time
	// Ended: nothing of the pod runs, or will run again.
	Ended bool
	// Completed: the main containers ended for good. What else runs, sidecars
	// and the sandbox, is to be stopped.
	Completed bool
}

// Make says what the next steps of a pod are. It is pure.
//
// A pod that is to run needs, in this order (what does not depend on each
// other runs at the same time):
//
//	volumes ----+
//	image ------+--> start, container by container
//	sandbox ----+
//
// A pod that is to end: main containers, then sidecars from the last to the
// first, then the sandbox; when it is deleted also everything it left behind.
func Make(in Input) Plan {
	p := planner{Input: in, plan: Plan{Waiting: map[string]v1.ContainerStateWaiting{}}}
	if in.Stop != nil {
		p.stop()
	} else {
		p.run()
	}
	return p.plan
}

type planner struct {
	Input
	plan Plan
}

func (p *planner) do(a Action) {
	if h, held := p.Holds[held(a.Kind)]; held && p.Now.Before(h.Until) {
		p.wake(h.Until)
	} else if !p.Busy[a.Key()] {
		p.plan.Actions = append(p.plan.Actions, a)
	}
}

func (p *planner) wake(t time.Time) {
	if p.plan.Wake.IsZero() || t.Before(p.plan.Wake) {
		p.plan.Wake = t
	}
}

// run is the plan of a pod that is to run.
func (p *planner) run() {
	sandbox := p.State.ReadySandbox()
	if sandbox == nil && p.completed() {
		p.plan.Completed = true
		return
	}
	if !p.Mounted {
		p.do(Action{Kind: MountVolumes})
	}
	if sandbox == nil {
		p.sandbox()
	}
	spec := &p.Pod.Spec
	initialized := p.mainExists(sandbox)
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if done, failed := p.init(c, sandbox, initialized); failed {
			p.plan.Completed = true
			return
		} else if !done && !initialized {
			return
		}
	}
	if p.completed() {
		p.plan.Completed = true
		return
	}
	for i := range spec.Containers {
		p.container(&spec.Containers[i], sandbox)
	}
	for i := range spec.EphemeralContainers {
		c := v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		if p.State.Latest(c.Name) == nil {
			p.start(&c, sandbox)
		}
	}
}

// sandbox asks for a new one; what still runs in an old one ends first, since
// two sandboxes of a pod would be two pods.
func (p *planner) sandbox() {
	clear := true
	for i := range p.State.Sandboxes {
		if b := &p.State.Sandboxes[i]; b.Ready {
			p.do(Action{Kind: StopSandbox, ID: b.ID})
			clear = false
		}
	}
	for i := range p.State.Containers {
		c := &p.State.Containers[i]
		if c.Running() {
			p.do(Action{Kind: StopContainer, Container: c.Name, ID: c.ID, Grace: grace(p.Pod), Why: "Pod sandbox changed, it will be killed and re-created."})
			clear = false
		}
	}
	if clear {
		p.do(Action{Kind: CreateSandbox})
	}
}

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
		if c == nil || !c.Exited() || status.Restarts(spec, &spec.Containers[i], c.ExitCode) {
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
		p.unhealthy(c, have)
	case have.Exited():
		old := sandbox == nil || have.SandboxID != sandbox.ID
		if status.Restarts(&p.Pod.Spec, c, have.ExitCode) || old && status.IsSidecar(c) {
			p.start(c, sandbox)
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

// start takes a container that is to run towards it: an image, and when
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
	switch {
	case !known, img.Ref == "" && !p.Now.Before(img.Retry):
		p.do(Action{Kind: PullImage, Container: c.Name})
		if img.Wait.Reason != "" {
			p.plan.Waiting[c.Name] = img.Wait
		}
		return
	case img.Ref == "":
		p.plan.Waiting[c.Name] = img.Wait
		p.wake(img.Retry)
		return
	}
	if sandbox != nil && p.Mounted {
		a := Action{Kind: StartContainer, Container: c.Name}
		for _, b := range p.plan.Actions {
			if b.Key() == a.Key() {
				return // an earlier container goes first
			}
		}
		p.do(a)
	}
}

func running(s *cri.State, name string) bool {
	c := s.Latest(name)
	return c != nil && c.Running()
}

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
