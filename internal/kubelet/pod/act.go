package pod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/image"
)

// failure is a step that failed, or a container that could not be started.
type failure struct {
	delay time.Duration
	until time.Time
	wait  v1.ContainerStateWaiting
}

const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// fail holds a step or container back for a while, longer each time.
func (w *Worker) fail(name string, wait v1.ContainerStateWaiting) {
	f := w.failures[name]
	if f == nil {
		f = &failure{}
		w.failures[name] = f
	}
	f.delay = min(max(2*f.delay, firstRetry), lastRetry)
	f.until = time.Now().Add(f.delay)
	f.wait = wait
}

// act takes a step in a goroutine of its own. step returns what the worker's
// goroutine applies when it is done.
func (w *Worker) act(a Action) {
	ctx, cancel := context.WithCancel(w.ctx)
	key := a.Key()
	w.busy[key] = cancel
	step := w.step(ctx, a)
	go func() {
		apply := step()
		w.results <- func() {
			delete(w.busy, key)
			apply() // asks ctx whether the step was cut short
			cancel()
		}
	}()
}

// step prepares a step; what it needs of the worker it takes now.
func (w *Worker) step(ctx context.Context, a Action) func() (apply func()) {
	pod := w.pod
	switch a.Kind {
	case MountVolumes:
		return w.mountVolumes(ctx, pod)
	case CreateSandbox:
		return w.createSandbox(ctx, pod)
	case PullImage:
		return w.pullImage(ctx, pod, a.Container)
	case PullVolume:
		return w.pullVolume(ctx, pod, a.Volume)
	case StartContainer:
		return w.startContainer(ctx, pod, a.Container)
	case StopContainer:
		return w.stopContainer(ctx, pod, a)
	case ResizeContainer:
		return w.resizeContainer(ctx, pod, a)
	case StopSandbox:
		return w.simple(a.Kind, true, func() error {
			_, err := w.deps.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: a.ID})
			return err
		}, nil)
	case GiveBack:
		return w.simple(a.Kind, false, func() error {
			err := w.deps.Devices.Unprepare(ctx, w.uid)
			if err != nil && ctx.Err() == nil {
				w.deps.Events.Pod(pod, "", v1.EventTypeWarning, "FailedUnprepareDynamicResources", "Failed to unprepare dynamic resources: %v", err)
			}
			return err
		}, nil)
	case RemoveRuntime:
		st := w.state
		return w.simple(a.Kind, true, func() error { return w.removeRuntime(ctx, st) }, nil)
	case CleanUp:
		keep := w.stop != nil && !w.stop.Delete
		return w.simple(a.Kind, false, func() error { return w.cleanUp(ctx, pod, keep) }, func() { w.mounted = false })
	case DeletePod:
		return w.simple(a.Kind, false, func() error { return w.deletePod(ctx, pod) }, func() { w.deleted = true })
	}
	panic("no such step: " + string(a.Kind))
}

// simple is a step that only succeeds or fails.
func (w *Worker) simple(kind Kind, stale bool, do func() error, then func()) func() func() {
	return func() func() {
		err := do()
		return func() {
			if stale {
				w.stale.Store(true)
			}
			if err != nil && !cri.IsNotFound(err) {
				if w.ctx.Err() == nil {
					w.deps.Log.Info("step failed", "loop", "kubelet", "key", w.pod.Namespace+"/"+w.pod.Name, "step", string(kind), "error", err)
				}
				w.fail(held(kind), v1.ContainerStateWaiting{Message: err.Error()})
				return
			}
			delete(w.failures, held(kind))
			if then != nil {
				then()
			}
		}
	}
}

// mountVolumes makes the pod's folder, group and volumes.
func (w *Worker) mountVolumes(ctx context.Context, pod *v1.Pod) func() func() {
	w.remount = false
	return func() func() {
		var groupErr error
		if w.deps.Cgroups != nil {
			groupErr = w.deps.Cgroups.Ensure(pod)
		}
		renew, err := w.deps.Volumes.Mount(ctx, pod)
		return func() {
			if groupErr != nil {
				w.deps.Log.Warn("pod has no limits of its own", "key", pod.Namespace+"/"+pod.Name, "error", groupErr)
			}
			if err != nil {
				if ctx.Err() == nil {
					w.deps.Events.Pod(pod, "", v1.EventTypeWarning, "FailedMount", "%v", err)
				}
				news := w.remount // came while the volumes were made
				w.remount = true
				w.fail(held(MountVolumes), v1.ContainerStateWaiting{Message: err.Error()})
				if news && !w.mounted {
					w.failures[held(MountVolumes)].until = time.Time{}
				}
				return
			}
			delete(w.failures, held(MountVolumes))
			w.mounted, w.renew, w.brought, w.seen = true, renew, time.Now().Round(0), metaVersion(pod)
		}
	}
}

// metaVersion changes when labels or annotations do.
func metaVersion(pod *v1.Pod) string { return fmt.Sprint(pod.Labels, pod.Annotations) }

func (w *Worker) createSandbox(ctx context.Context, pod *v1.Pod) func() func() {
	attempt := uint32(0)
	var dead []string
	for _, b := range w.state.Sandboxes {
		attempt = max(attempt, b.Attempt+1)
		dead = append(dead, b.ID)
	}
	if len(w.state.Sandboxes) > 0 {
		w.deps.Events.Pod(pod, "", v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	return func() func() {
		if err := w.deps.Devices.Prepare(ctx, pod); err != nil {
			return func() {
				if ctx.Err() != nil {
					return
				}
				w.deps.Events.Pod(pod, "", v1.EventTypeWarning, "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: %v", err)
				w.fail(held(CreateSandbox), v1.ContainerStateWaiting{Message: err.Error()})
			}
		}
		config, err := w.deps.sandboxConfig(pod, attempt)
		if err == nil {
			err = os.MkdirAll(config.LogDirectory, 0o755)
		}
		handler := ""
		if err == nil {
			handler, err = w.deps.handler(ctx, pod)
		}
		// One that died by itself, or with the machine, has its address still.
		for _, id := range dead {
			if err == nil {
				_, err = w.deps.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
			}
			if cri.IsNotFound(err) {
				err = nil
			}
		}
		if err == nil {
			_, err = w.deps.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
		}
		return func() {
			w.stale.Store(true)
			if err != nil {
				if ctx.Err() == nil {
					w.deps.Events.Pod(pod, "", v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %s", errorText(err))
				}
				w.fail(held(CreateSandbox), v1.ContainerStateWaiting{Message: err.Error()})
				return
			}
			delete(w.failures, held(CreateSandbox))
		}
	}
}

// handler is the runtime handler of the pod's runtime class.
func (d *Deps) handler(ctx context.Context, pod *v1.Pod) (string, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return "", nil
	}
	o, err := d.Client.Get(ctx, nodev1.SchemeGroupVersion.WithResource("runtimeclasses"), "", *name)
	if err != nil {
		return "", err
	}
	c, ok := o.(*nodev1.RuntimeClass)
	if !ok {
		return "", fmt.Errorf("runtime class %q is a %T", *name, o)
	}
	return c.Handler, nil
}

// errorText is a gRPC error in the form that people know from kubectl
// describe.
func errorText(err error) string { return err.Error() }

func (w *Worker) pullImage(ctx context.Context, pod *v1.Pod, name string) func() func() {
	c := container(pod, name)
	return func() func() {
		img := w.pull(ctx, pod, image.OfContainer(c))
		return func() { w.images[name] = img }
	}
}

// pull brings an image to the node, or says why it is not there.
func (w *Worker) pull(ctx context.Context, pod *v1.Pod, need image.Need) Image {
	config, err := w.deps.sandboxConfig(pod, 0)
	ref := ""
	if err == nil {
		ref, err = w.deps.Images.Ensure(ctx, pod, need, config)
	}
	var why *image.Error
	switch {
	case err == nil:
		return Image{Ref: ref}
	case errors.As(err, &why):
		return Image{Retry: why.Retry, Wait: v1.ContainerStateWaiting{Reason: why.Reason, Message: why.Message}}
	}
	return Image{Retry: time.Now().Add(retry), Wait: v1.ContainerStateWaiting{Reason: image.ErrImagePull, Message: err.Error()}}
}

// container is a container of a pod by name: a copy for ephemeral ones.
func container(pod *v1.Pod, name string) *v1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return &pod.Spec.InitContainers[i]
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			c := v1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			return &c
		}
	}
	return nil
}

func (w *Worker) removeRuntime(ctx context.Context, st *cri.State) error {
	var errs []error
	for _, b := range st.Sandboxes {
		if _, err := w.deps.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: b.ID}); err != nil && !cri.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	// Removing a sandbox removes its containers; these are of sandboxes that
	// are gone.
	for _, c := range st.Containers {
		orphan := true
		for _, b := range st.Sandboxes {
			orphan = orphan && b.ID != c.SandboxID
		}
		if !orphan {
			continue
		}
		if _, err := w.deps.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.ID}); err != nil && !cri.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// cleanUp takes away what the pod has on the node beside the runtime. keep
// leaves what people may still ask for: logs and last words.
func (w *Worker) cleanUp(ctx context.Context, pod *v1.Pod, keep bool) error {
	if keep {
		return w.deps.Volumes.TearDown(ctx, w.uid)
	}
	errs := []error{w.deps.Volumes.Unmount(ctx, w.uid), os.RemoveAll(w.deps.logDir(pod))}
	if w.deps.Cgroups != nil {
		errs = append(errs, w.deps.Cgroups.Remove(w.uid))
	}
	return errors.Join(errs...)
}

func (w *Worker) logsExist() bool {
	_, err := os.Stat(w.deps.logDir(w.pod))
	return err == nil
}

// logDir is upstream's form, so that log shippers find it.
func (d *Deps) logDir(pod *v1.Pod) string {
	return filepath.Join(d.LogsDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// deletePod tells the API server that nothing of the pod is left.
func (w *Worker) deletePod(ctx context.Context, pod *v1.Pod) error {
	zero := int64(0)
	err := w.deps.Client.Delete(ctx, Resource, pod.Namespace, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	// A conflict may say that another pod has the name by now, which the view
	// will show, or nothing of the kind: asked again.
	return err
}
