package pod

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// Reasons of a container that could not be started, as upstream names them.
const (
	createConfigError = "CreateContainerConfigError"
	createError       = "CreateContainerError"
	runError          = "RunContainerError"
	postStartError    = "PostStartHookError"
)

// startError says at which stage a start failed.
type startError struct {
	reason string
	err    error
}

func (e *startError) Error() string { return errorText(e.err) }

// launch is what a container is started from beside its spec.
type launch struct {
	sandbox  cri.Sandbox
	image    string           // the runtime's reference
	volumes  map[string]Image // by name, of volumes that show one
	target   string           // id of the container whose processes it sees; empty: none
	restarts int32            // how many containers of its name came before
}

// startContainer makes a container, starts it and runs its postStart hook. The
// next container of the pod waits for the hook.
func (w *Worker) startContainer(ctx context.Context, pod *v1.Pod, name string) func() func() {
	c := container(pod, name)
	sandbox := *w.state.ReadySandbox()
	from := launch{sandbox: sandbox, image: w.images[name].Ref, volumes: maps.Clone(w.volumes), target: w.target(pod, name)}
	had := w.state.Latest(name)
	if had != nil {
		from.restarts = had.Restarts + 1
		if had.State == runtimeapi.ContainerState_CONTAINER_CREATED {
			from.restarts = had.Restarts // it never ran: made anew
		}
	} else if s := lastStatus(pod, name); s != nil && (s.State.Running != nil || s.LastTerminationState.Terminated != nil) {
		from.restarts = s.RestartCount // the runtime lost it
		if s.State.Running != nil {
			from.restarts++
		}
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		w.starting = name
	}
	return func() func() {
		if had != nil && had.State == runtimeapi.ContainerState_CONTAINER_CREATED {
			_, _ = w.deps.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: had.ID})
		}
		id, err := w.start(ctx, pod, c, from)
		return func() {
			if id != "" {
				w.made[id] = *c.Resources.DeepCopy()
			}
			w.stale.Store(true)
			w.starting = ""
			// The next start looks at the image anew. Volumes stay as they were
			// found: they are resolved once in a pod's life.
			delete(w.images, name)
			if err == nil {
				delete(w.failures, name)
				return
			}
			if ctx.Err() != nil {
				return
			}
			wait := v1.ContainerStateWaiting{Reason: runError, Message: err.Error()}
			var at *startError
			if errors.As(err, &at) {
				wait.Reason = at.reason
			}
			if id == "" {
				w.forgetVolumes(c)
			}
			w.deps.Events.Pod(pod, name, v1.EventTypeWarning, "Failed", "Error: %s", err)
			w.fail(name, wait)
		}
	}
}

// target is the id of the running container whose processes an ephemeral
// container is to see; empty: none.
func (w *Worker) target(pod *v1.Pod, name string) string {
	for i := range pod.Spec.EphemeralContainers {
		e := &pod.Spec.EphemeralContainers[i]
		if e.Name != name || e.TargetContainerName == "" {
			continue
		}
		if c := w.state.Latest(e.TargetContainerName); c != nil && c.Running() {
			return c.ID
		}
	}
	return ""
}

func lastStatus(pod *v1.Pod, name string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func (w *Worker) start(ctx context.Context, pod *v1.Pod, c *v1.Container, from launch) (id string, err error) {
	// They are, since the sandbox was made; but for a kubelet that lost what it
	// knew, and for what it has to do without.
	if err := w.deps.Devices.Prepare(ctx, pod); err != nil {
		return "", &startError{createConfigError, err}
	}
	config, err := w.deps.containerConfig(ctx, pod, c, from)
	if err != nil {
		return "", &startError{createConfigError, err}
	}
	if from.target != "" {
		n := config.Linux.SecurityContext.NamespaceOptions
		n.Pid, n.TargetId = runtimeapi.NamespaceMode_TARGET, from.target
	}
	sandboxConfig, err := w.deps.sandboxConfig(pod, from.sandbox.Attempt)
	if err != nil {
		return "", &startError{createConfigError, err}
	}
	if err := os.MkdirAll(filepath.Join(sandboxConfig.LogDirectory, c.Name), 0o755); err != nil {
		return "", &startError{createError, err}
	}
	made, err := w.deps.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: from.sandbox.ID, Config: config, SandboxConfig: sandboxConfig})
	if err != nil {
		return "", &startError{createError, err}
	}
	w.deps.Events.Pod(pod, c.Name, v1.EventTypeNormal, "Created", "Container created")
	if _, err := w.deps.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		return made.ContainerId, &startError{runError, err}
	}
	w.deps.Events.Pod(pod, c.Name, v1.EventTypeNormal, "Started", "Container started")
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return made.ContainerId, nil
	}
	return made.ContainerId, w.postStart(ctx, pod, c, made.ContainerId, from.sandbox)
}

// postStart runs the hook; when it fails the container is killed.
func (w *Worker) postStart(ctx context.Context, pod *v1.Pod, c *v1.Container, id string, sandbox cri.Sandbox) error {
	w.later(func() { w.stale.Store(true) }) // it runs: the status may say so
	err := w.deps.runHook(ctx, pod, c, id, podHost(w.deps, pod, sandbox), c.Lifecycle.PostStart)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	w.deps.Events.Pod(pod, c.Name, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	w.deps.Events.Pod(pod, c.Name, v1.EventTypeNormal, "Killing", "FailedPostStartHook")
	_, stopErr := w.deps.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: int64(grace(pod).Seconds())})
	return &startError{postStartError, errors.Join(fmt.Errorf("PostStartHook failed: %w", err), stopErr)}
}

// later has the worker's goroutine apply f while a step goes on.
func (w *Worker) later(f func()) {
	select {
	case w.results <- f:
	case <-w.ctx.Done():
	}
}

func podHost(d *Deps, pod *v1.Pod, sandbox cri.Sandbox) string {
	if pod.Spec.HostNetwork {
		if len(d.HostIPs) > 0 {
			return d.HostIPs[0]
		}
		return "127.0.0.1"
	}
	if len(sandbox.IPs) > 0 {
		return sandbox.IPs[0]
	}
	return ""
}
