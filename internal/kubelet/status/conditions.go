package status

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditions are the kubelet's, in upstream's order, after them those of
// others. A condition's transition time moves only with its status.
func conditions(in Input, s *v1.PodStatus) []v1.PodCondition {
	own := []v1.PodCondition{
		sandboxReady(in, s),
		initialized(in.Pod, s),
		{}, // Ready: needs ContainersReady
		containersReady(in.Pod, s),
	}
	own[2] = ready(in.Pod, s, own[3])
	scheduled := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue}
	for _, c := range in.Pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			scheduled = c
		}
	}
	scheduled.ObservedGeneration = in.Pod.Generation
	own = append(own, scheduled)

	if f := in.Failed; f != nil && f.Disruption {
		own = append(own, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
			Reason: v1.PodReasonTerminationByKubelet, Message: f.Message})
	}

	own = append(own, resizing(in)...)

	had := map[v1.PodConditionType]v1.PodCondition{}
	for _, c := range in.Pod.Status.Conditions {
		had[c.Type] = c
	}
	mine := map[v1.PodConditionType]bool{v1.PodResizePending: true, v1.PodResizeInProgress: true}
	for i := range own {
		c := &own[i]
		mine[c.Type] = true
		if was, ok := had[c.Type]; ok && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
			c.LastProbeTime = was.LastProbeTime
		} else if c.LastTransitionTime.IsZero() || c.Type != v1.PodScheduled {
			c.LastTransitionTime = metav1.NewTime(in.Now.Truncate(time.Second))
		}
		c.ObservedGeneration = in.Pod.Generation
	}
	for _, c := range in.Pod.Status.Conditions {
		if !mine[c.Type] {
			own = append(own, c)
		}
	}
	return own
}

// resizing are the conditions of a resize that is not done; without one there
// are none.
func resizing(in Input) (out []v1.PodCondition) {
	if p := in.Resize.Pending; p != nil {
		out = append(out, v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: p.Reason, Message: p.Message})
	}
	if !in.Ended && in.Failed == nil && changes(in) {
		c := v1.PodCondition{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}
		if in.Resize.Error != "" {
			c.Reason, c.Message = v1.PodReasonError, in.Resize.Error
		}
		out = append(out, c)
	}
	return out
}

// changes tells whether a container runs with other resources than it is
// given.
func changes(in Input) bool {
	for _, list := range [][]v1.Container{in.Pod.Spec.Containers, in.Pod.Spec.InitContainers} {
		for i := range list {
			c := in.State.Latest(list[i].Name)
			if c == nil {
				continue
			}
			if a, ok := in.Actual[c.ID]; ok && !SameCompute(&a, &list[i].Resources) {
				return true
			}
		}
	}
	return false
}

// SameCompute compares what may be resized: CPU and memory.
func SameCompute(a, b *v1.ResourceRequirements) bool {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if !SameAmount(a, b, name) {
			return false
		}
	}
	return true
}

// SameAmount compares the requests and limits of one resource.
func SameAmount(a, b *v1.ResourceRequirements, name v1.ResourceName) bool {
	x, y := a.Requests[name], b.Requests[name]
	l, m := a.Limits[name], b.Limits[name]
	return x.Cmp(y) == 0 && l.Cmp(m) == 0
}

func sandboxReady(in Input, s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionFalse}
	if b := in.State.ReadySandbox(); b != nil && (in.Pod.Spec.HostNetwork || len(b.IPs) > 0) && !terminal(s.Phase) {
		c.Status = v1.ConditionTrue
	}
	return c
}

func initialized(pod *v1.Pod, s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if s.Phase == v1.PodSucceeded {
		c.Reason = "PodCompleted"
		return c
	}
	mainStarted := false
	for _, m := range s.ContainerStatuses {
		mainStarted = mainStarted || m.State.Running != nil || m.State.Terminated != nil
	}
	if mainStarted {
		return c
	}
	var open []string
	for i := range s.InitContainerStatuses {
		st := &s.InitContainerStatuses[i]
		done := st.State.Terminated != nil && st.State.Terminated.ExitCode == 0
		if IsSidecar(&pod.Spec.InitContainers[i]) {
			done = st.Started != nil && *st.Started
		}
		if !done {
			open = append(open, st.Name)
		}
	}
	if len(open) > 0 {
		c.Status, c.Reason = v1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(open, " "))
	}
	return c
}

func containersReady(pod *v1.Pod, s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse}
	switch s.Phase {
	case v1.PodSucceeded:
		c.Reason = "PodCompleted"
		return c
	case v1.PodFailed:
		c.Reason = "PodFailed"
		return c
	}
	var unready []string
	for i := range s.InitContainerStatuses {
		if st := &s.InitContainerStatuses[i]; !st.Ready && IsSidecar(&pod.Spec.InitContainers[i]) {
			unready = append(unready, st.Name)
		}
	}
	for i := range s.ContainerStatuses {
		if !s.ContainerStatuses[i].Ready {
			unready = append(unready, s.ContainerStatuses[i].Name)
		}
	}
	if len(unready) > 0 {
		c.Reason = "ContainersNotReady"
		c.Message = fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
		return c
	}
	c.Status = v1.ConditionTrue
	return c
}

func ready(pod *v1.Pod, s *v1.PodStatus, containers v1.PodCondition) v1.PodCondition {
	c := containers
	c.Type = v1.PodReady
	if c.Status != v1.ConditionTrue {
		return c
	}
	var open []string
	for _, g := range pod.Spec.ReadinessGates {
		found := false
		for _, have := range pod.Status.Conditions {
			if have.Type != g.ConditionType {
				continue
			}
			found = true
			if have.Status != v1.ConditionTrue {
				open = append(open, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", g.ConditionType, have.Status))
			}
		}
		if !found {
			open = append(open, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", g.ConditionType))
		}
	}
	if len(open) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(open, ", ")
	}
	return c
}
