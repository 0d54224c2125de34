package pod

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/probe"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// watchers are the probes of one running container.
type watchers struct {
	name      string // of the container
	running   map[probe.Kind]context.CancelFunc
	started   bool
	ready     bool
	unhealthy string
	grace     *int64
}

func (h *watchers) close() {
	for _, cancel := range h.running {
		if cancel != nil {
			cancel()
		}
	}
}

// health is what the plan sees; a container whose postStart hook runs has not
// started yet.
func (h *watchers) health(starting string) Health {
	hook := h.name == starting
	return Health{
		Health:    status.Health{Started: h.started && !hook, Ready: h.ready && !hook},
		Unhealthy: h.unhealthy,
		Grace:     h.grace,
	}
}

// watch sees to it that each running container is probed, and none other.
func (w *Worker) watch() {
	alive := map[string]bool{}
	for i := range w.state.Containers {
		c := &w.state.Containers[i]
		spec := container(w.pod, c.Name)
		if !c.Running() || spec == nil {
			continue
		}
		alive[c.ID] = true
		h := w.health[c.ID]
		if h == nil {
			h = w.adopt(c, spec)
			w.health[c.ID] = h
		}
		w.probe(h, c, spec)
	}
	for id, h := range w.health {
		if !alive[id] {
			h.close()
			delete(w.health, id)
		}
	}
}

// adopt begins to watch a container. One that the status shows as started or
// ready is so until a probe says otherwise: a kubelet that restarts must not
// take a serving pod out of its services.
func (w *Worker) adopt(c *cri.Container, spec *v1.Container) *watchers {
	h := &watchers{name: c.Name, running: map[probe.Kind]context.CancelFunc{}, started: spec.StartupProbe == nil, ready: spec.ReadinessProbe == nil}
	if s := lastStatus(w.pod, c.Name); s != nil && s.ContainerID == status.RuntimePrefix+c.ID && s.State.Running != nil {
		h.started = h.started || s.Started != nil && *s.Started
		h.ready = h.ready || s.Ready
	}
	return h
}

// probe starts the probes that a container is due: the startup probe first,
// the others when that one passed.
func (w *Worker) probe(h *watchers, c *cri.Container, spec *v1.Container) {
	if w.stop != nil {
		// What ends is not restarted; whether it still serves is of interest.
		for _, k := range []probe.Kind{probe.Startup, probe.Liveness} {
			if cancel := h.running[k]; cancel != nil {
				cancel()
				h.running[k] = nil // and never begun again
			}
		}
	}
	if !h.started {
		if spec.StartupProbe != nil && w.stop == nil {
			w.run(h, c, spec, probe.Startup, spec.StartupProbe, probe.Unknown)
		}
		return
	}
	if spec.ReadinessProbe != nil {
		initial := probe.Failure
		if h.ready {
			initial = probe.Success
		}
		w.run(h, c, spec, probe.Readiness, spec.ReadinessProbe, initial)
	}
	if spec.LivenessProbe != nil && w.stop == nil {
		w.run(h, c, spec, probe.Liveness, spec.LivenessProbe, probe.Success)
	}
}

func (w *Worker) run(h *watchers, c *cri.Container, spec *v1.Container, kind probe.Kind, p *v1.Probe, initial probe.Result) {
	if _, is := h.running[kind]; is {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	h.running[kind] = cancel
	pod, id := w.pod, c.ID
	target := probe.Target{Ports: spec.Ports, Exec: w.deps.exec(id)}
	for _, b := range w.state.Sandboxes {
		if b.ID == c.SandboxID {
			target.Host = podHost(w.deps, pod, b)
		}
	}
	check := func(ctx context.Context) (probe.Result, string) {
		return probe.Check(ctx, p.ProbeHandler, probe.Timeout(p), target)
	}
	report := func(o probe.Outcome) {
		switch o.Result {
		case probe.Failure:
			w.deps.Events.Pod(pod, spec.Name, v1.EventTypeWarning, "Unhealthy", "%s probe failed: %s", kind, o.Message)
		case probe.Unknown:
			w.deps.Events.Pod(pod, spec.Name, v1.EventTypeWarning, "Unhealthy", "%s probe errored and resulted in unknown state: %s", kind, o.Message)
		}
		if o.Changed {
			w.later(func() { w.judge(id, spec, kind, p, o.Verdict) })
		}
	}
	started := c.StartedAt
	go probe.Run(ctx, kind, p, started, initial, check, report)
}

// judge takes a probe's verdict over.
func (w *Worker) judge(id string, spec *v1.Container, kind probe.Kind, p *v1.Probe, verdict probe.Result) {
	h := w.health[id]
	if h == nil {
		return
	}
	ok := verdict == probe.Success
	switch {
	case kind == probe.Readiness:
		h.ready = ok
	case kind == probe.Startup && ok:
		h.started = true
	case !ok:
		h.unhealthy = fmt.Sprintf("Container %s failed %s probe, will be restarted", spec.Name, map[probe.Kind]string{probe.Startup: "startup", probe.Liveness: "liveness"}[kind])
		h.grace = p.TerminationGracePeriodSeconds
	}
}

// exec runs commands of probes in a container.
func (d *Deps) exec(id string) func(context.Context, []string, time.Duration) (int32, []byte, error) {
	return func(ctx context.Context, command []string, timeout time.Duration) (int32, []byte, error) {
		// The runtime ends the command when its time is up; the call itself
		// gets a little more, so that the runtime's word is heard.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout+time.Second)
		defer cancel()
		resp, err := d.Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: int64(timeout.Seconds())})
		if err != nil {
			return 0, nil, err
		}
		return resp.ExitCode, append(resp.Stdout, resp.Stderr...), nil
	}
}
