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
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// Kind is a step that a worker takes.
type Kind string

const (
	MountVolumes    Kind = "mount volumes"
	CreateSandbox   Kind = "create sandbox"
	PullImage       Kind = "pull image"
	PullVolume      Kind = "pull volume" // the image that a volume shows
	StartContainer  Kind = "start container"
	StopContainer   Kind = "stop container"
	ResizeContainer Kind = "resize container"
	StopSandbox     Kind = "stop sandbox"
	GiveBack        Kind = "give devices back"
	RemoveRuntime   Kind = "remove sandboxes"
	CleanUp         Kind = "clean up"
	DeletePod       Kind = "delete pod"
)

// Action is one step. Steps with different keys may run at the same time.
type Action struct {
	Kind      Kind
	Container string        // name, of a container's steps
	Volume    string        // name, of PullVolume
	ID        string        // of the container or sandbox, where it exists
	Grace     time.Duration // StopContainer
	Why       string        // StopContainer: for the event
	Resize    bool          // StopContainer: to be started again with other resources, however it ends
}

// Key tells a step that is being taken already from a new one.
func (a Action) Key() string {
	switch a.Kind {
	case PullImage:
		return string(a.Kind) + "/" + a.Container
	case PullVolume:
		return string(a.Kind) + "/" + a.Volume
	case StopContainer, StopSandbox, ResizeContainer:
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

// Image is what is known of the image of a container or volume.
type Image struct {
	Ref    string    // not empty: it is there, for the next start
	Digest string    // of a volume's: what people know it by
	Retry  time.Time // Ref empty: when to look again
	Wait   v1.ContainerStateWaiting
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
	Stop    *Stop             // nil: the pod is to run
	Mounted bool              // the volumes are there
	Dirty   bool              // there is something of the pod on the node beside the runtime: volumes, cgroup
	Devices bool              // of a pod that is to end: it has devices prepared
	Images  map[string]Image  // by container name
	Volumes map[string]Image  // by volume name, of volumes that show an image
	Holds   map[string]Hold   // by container name, and of kinds of steps that failed
	Health  map[string]Health // by container id
	Busy    map[string]bool   // keys of the steps being taken
	// Resize are the containers, by id, whose resources are not as claimed;
	// true: they are restarted for that.
	Resize map[string]bool
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
//	images -----+--> start, container by container
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

// do asks for a step, unless it is being taken, is held, or another container
// of the pod asked for it first.
func (p *planner) do(a Action) {
	if h, held := p.Holds[held(a.Kind)]; held && p.Now.Before(h.Until) {
		p.wake(h.Until)
	} else if !p.Busy[a.Key()] && !slices.ContainsFunc(p.plan.Actions, func(b Action) bool { return b.Key() == a.Key() }) {
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
