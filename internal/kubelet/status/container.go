package status

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// RuntimePrefix stands before container ids: upstream's form names the
// runtime.
const RuntimePrefix = "containerd://"

// Reasons of containers, as upstream names them.
const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonCompleted    = "Completed"
	reasonError        = "Error"
	reasonUnknown      = "ContainerStatusUnknown"
)

// IsSidecar tells whether an init container is one that goes on beside the
// main containers.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func containers(in Input, old []v1.ContainerStatus, specs []v1.Container, init bool) []v1.ContainerStatus {
	if len(specs) == 0 {
		return nil
	}
	was := make(map[string]*v1.ContainerStatus, len(old))
	for i := range old {
		was[old[i].Name] = &old[i]
	}
	out := make([]v1.ContainerStatus, 0, len(specs))
	for i := range specs {
		out = append(out, container(in, was[specs[i].Name], &specs[i], init))
	}
	return out
}

func container(in Input, was *v1.ContainerStatus, spec *v1.Container, init bool) v1.ContainerStatus {
	c := in.State.Latest(spec.Name)
	if c == nil {
		return unknown(in, was, spec)
	}
	s := v1.ContainerStatus{
		Name:         spec.Name,
		Image:        c.Image,
		ImageID:      c.ImageID,
		ContainerID:  RuntimePrefix + c.ID,
		RestartCount: c.Restarts,
		Resources:    spec.Resources.DeepCopy(),
		VolumeMounts: mounts(spec, c),
	}
	if actual, ok := in.Actual[c.ID]; ok {
		s.Resources = actual.DeepCopy()
	}
	if len(spec.Resources.Requests) > 0 {
		s.AllocatedResources = spec.Resources.Requests.DeepCopy()
	}
	if c.HasUser {
		s.User = &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: c.UID, GID: c.GID, SupplementalGroups: c.Groups}}
	}
	if s.Image == "" {
		s.Image = spec.Image
	}
	last := previous(in.State, c)
	wait, waits := in.Waiting[spec.Name]
	started := false
	switch {
	case c.Running():
		s.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(c.StartedAt.Truncate(1e9))}
		h := in.Health[c.ID]
		started = h.Started
		s.Ready = h.Started && h.Ready && (!init || IsSidecar(spec))
	case c.State == runtimeapi.ContainerState_CONTAINER_CREATED:
		if !waits {
			wait.Reason = creating(in.Pod)
		}
		s.State.Waiting = &wait
		s.ContainerID, s.ImageID = "", ""
	case waits:
		s.State.Waiting = &wait
		last = c
	default:
		s.State.Terminated = terminated(c, in.Messages)
		s.Ready = init && !IsSidecar(spec) && c.ExitCode == 0
	}
	s.Started = &started
	switch {
	case last != nil:
		s.LastTerminationState.Terminated = terminated(last, in.Messages)
	case was != nil && was.RestartCount == s.RestartCount:
		// The runtime keeps one dead container of a name; what came before
		// that one is known from the status only.
		s.LastTerminationState = *was.LastTerminationState.DeepCopy()
	}
	return s
}

// previous is the dead container before c.
func previous(s *cri.State, c *cri.Container) *cri.Container {
	for i := range s.Containers {
		p := &s.Containers[i]
		if p.Name == c.Name && p.ID != c.ID && p.Exited() && p.CreatedAt.Before(c.CreatedAt) {
			return p
		}
	}
	return nil
}

// unknown is the status of a container of which the runtime has nothing: it
// was not made yet, or it was and the runtime lost it.
func unknown(in Input, was *v1.ContainerStatus, spec *v1.Container) v1.ContainerStatus {
	started := false
	s := v1.ContainerStatus{Name: spec.Name, Image: spec.Image, Started: &started}
	wait, waits := in.Waiting[spec.Name]
	if was != nil {
		s.RestartCount = was.RestartCount
		s.LastTerminationState = *was.LastTerminationState.DeepCopy()
		if was.State.Terminated != nil && !waits {
			// It ended and was tidied away: the end stands.
			s = *was.DeepCopy()
			s.Started = &started
			return s
		}
		if was.State.Running != nil {
			lost := &v1.ContainerStateTerminated{
				Reason:      reasonUnknown,
				Message:     "The container could not be located when the pod was terminated",
				ExitCode:    137,
				ContainerID: was.ContainerID,
			}
			s.LastTerminationState = v1.ContainerState{Terminated: lost}
			if in.Ended || in.Failed != nil {
				s.Image, s.ImageID, s.ContainerID = was.Image, was.ImageID, was.ContainerID
				s.State.Terminated = lost
				return s
			}
			s.RestartCount++
		}
	}
	if !waits {
		wait.Reason = creating(in.Pod)
	}
	s.State.Waiting = &wait
	return s
}

func creating(pod *v1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return reasonInitializing
	}
	return reasonCreating
}

func terminated(c *cri.Container, messages map[string]string) *v1.ContainerStateTerminated {
	t := &v1.ContainerStateTerminated{
		ExitCode:    c.ExitCode,
		Reason:      c.Reason,
		Message:     c.Message,
		ContainerID: RuntimePrefix + c.ID,
	}
	if m := messages[c.ID]; m != "" {
		t.Message = m
	}
	if !c.StartedAt.IsZero() {
		t.StartedAt = metav1.NewTime(c.StartedAt.Truncate(1e9))
	}
	if !c.FinishedAt.IsZero() {
		t.FinishedAt = metav1.NewTime(c.FinishedAt.Truncate(1e9))
	}
	if t.Reason == "" {
		t.Reason = reasonError
		if c.ExitCode == 0 {
			t.Reason = reasonCompleted
		}
	}
	if t.Message == "" && t.Reason == "StartError" {
		t.Message = fmt.Sprintf("container %q could not be started", c.Name)
	}
	return t
}

// mounts are those of a container; have, when not nil, is the one that there
// is.
func mounts(spec *v1.Container, have *cri.Container) []v1.VolumeMountStatus {
	var out []v1.VolumeMountStatus
	for _, m := range spec.VolumeMounts {
		s := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			off := v1.RecursiveReadOnlyDisabled
			s.RecursiveReadOnly = &off
		}
		if have != nil && have.Images[m.MountPath] != "" {
			s.VolumeStatus = &v1.VolumeStatus{Image: &v1.ImageVolumeStatus{ImageRef: have.Images[m.MountPath]}}
		}
		out = append(out, s)
	}
	return out
}
