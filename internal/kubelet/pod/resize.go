package pod

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// Resources of a running pod are resized in place. See
// https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/.
//
//	filed (spec) --the node has room--> allocated --step--> actual
//
// What is allocated and what is actual stands in the pod's status, so that a
// kubelet that restarts goes on. While the node has no room the pod is looked
// after as if nothing new had been filed, and its status says why.

// pendingEvery is how often room is looked for again.
const pendingEvery = 5 * time.Second

// allocate is the pod as it is to be looked after: with the resources that are
// filed where the node has room for them, else with those it has.
func (w *Worker) allocate(pod *v1.Pod) *v1.Pod {
	w.pending = nil
	if w.deps.Fits == nil || w.stop != nil || !resizeFiled(pod) {
		return pod
	}
	if w.pending = w.deps.Fits(pod); w.pending == nil {
		return pod
	}
	out := *pod
	out.Spec.Containers = allocated(pod, pod.Spec.Containers)
	out.Spec.InitContainers = allocated(pod, pod.Spec.InitContainers)
	return &out
}

// resizeFiled tells whether a container asks for other than it was given.
func resizeFiled(pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if s := lastStatus(pod, list[i].Name); given(s) && !status.SameCompute(&v1.ResourceRequirements{Requests: s.AllocatedResources}, &v1.ResourceRequirements{Requests: list[i].Resources.Requests}) {
				return true
			}
		}
	}
	return false
}

// given tells whether a status says what a container was given.
func given(s *v1.ContainerStatus) bool {
	return s != nil && s.ContainerID != "" && s.Resources != nil
}

func allocated(pod *v1.Pod, list []v1.Container) []v1.Container {
	out := append([]v1.Container(nil), list...)
	for i := range out {
		if s := lastStatus(pod, out[i].Name); given(s) {
			out[i].Resources.Requests, out[i].Resources.Limits = s.AllocatedResources, s.Resources.Limits
		}
	}
	return out
}

// actual are the resources with which a container runs: those it was made with
// or resized to, which after a restart of the kubelet only the status knows.
func (w *Worker) actual(c *cri.Container, spec *v1.Container) v1.ResourceRequirements {
	if r, known := w.made[c.ID]; known {
		return r
	}
	if s := lastStatus(w.pod, c.Name); s != nil && s.ContainerID == status.RuntimePrefix+c.ID && s.Resources != nil {
		return *s.Resources
	}
	return spec.Resources
}

// resources tells with what the running containers run, and which are to be
// resized, true: by a restart, which the ended ones still wait for.
func (w *Worker) resources() (actual map[string]v1.ResourceRequirements, resize map[string]bool) {
	actual, resize = map[string]v1.ResourceRequirements{}, map[string]bool{}
	for i := range w.state.Containers {
		c := &w.state.Containers[i]
		spec := container(w.pod, c.Name)
		if w.restart[c.ID] {
			resize[c.ID] = true
		}
		if !c.Running() || spec == nil {
			continue
		}
		have := w.actual(c, spec)
		actual[c.ID] = have
		if !status.SameCompute(&have, &spec.Resources) {
			resize[c.ID] = restartsFor(spec, &have)
		}
	}
	for id := range w.made {
		if _, runs := actual[id]; !runs && w.state.Container(id) == nil && len(w.busy) == 0 {
			delete(w.made, id)
			delete(w.restart, id)
		}
	}
	return actual, resize
}

// restartsFor tells whether a container wants to be restarted for what changes.
func restartsFor(spec *v1.Container, have *v1.ResourceRequirements) bool {
	for _, p := range spec.ResizePolicy {
		if p.RestartPolicy == v1.RestartContainer && !status.SameAmount(have, &spec.Resources, p.ResourceName) {
			return true
		}
	}
	return false
}

// resizeContainer gives a running container other resources.
func (w *Worker) resizeContainer(ctx context.Context, pod *v1.Pod, a Action) func() func() {
	c := container(pod, a.Container)
	return func() func() {
		err := w.deps.resize(ctx, pod, c, a.ID)
		return func() {
			switch {
			case err == nil:
				delete(w.failures, held(ResizeContainer))
				w.made[a.ID], w.resizeError = *c.Resources.DeepCopy(), ""
			case ctx.Err() == nil && !cri.IsNotFound(err):
				w.resizeError = errorText(err)
				w.deps.Log.Info("container not resized", "key", pod.Namespace+"/"+pod.Name, "container", a.Container, "error", err)
				w.fail(held(ResizeContainer), v1.ContainerStateWaiting{})
			}
		}
	}
}

func (d *Deps) resize(ctx context.Context, pod *v1.Pod, c *v1.Container, id string) error {
	to := d.resources(pod, c)
	if to == nil {
		return nil // on a host without groups nothing has limits
	}
	if limit := to.MemoryLimitInBytes; limit > 0 {
		// The kernel would end it there and then.
		resp, err := d.Runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
		if used := resp.GetStats().GetMemory().GetUsageBytes().GetValue(); err == nil && used > uint64(limit) {
			return fmt.Errorf("attempting to set the memory limit of container %s (%d) below its current usage (%d)", c.Name, limit, used)
		}
	}
	// The pod's group is widened before its containers and narrowed after
	// them: whichever it is, one of the two does it, and the last must succeed.
	_ = d.Cgroups.Ensure(pod)
	if _, err := d.Runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: to}); err != nil {
		return err
	}
	return d.Cgroups.Ensure(pod)
}
