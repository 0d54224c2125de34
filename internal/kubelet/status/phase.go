package status

import (
	v1 "k8s.io/api/core/v1"
)

// Phase follows from the container statuses. ended says that nothing of the
// pod will run again, so that even a pod that always restarts comes to an end.
func Phase(spec *v1.PodSpec, s *v1.PodStatus, ended bool) v1.PodPhase {
	initializing, initFailed := false, false
	mainStarted := false
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		mainStarted = mainStarted || c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	}
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		sidecar := IsSidecar(&spec.InitContainers[i])
		switch {
		case sidecar:
			up := c.State.Running != nil && c.Started != nil && *c.Started
			initializing = initializing || !up && !mainStarted
		case c.State.Terminated != nil:
			if c.State.Terminated.ExitCode != 0 {
				if neverAgain(spec, &spec.InitContainers[i]) || ended {
					initFailed = true
				} else {
					initializing = true
				}
			}
		default:
			initializing = initializing || !mainStarted
		}
	}
	if initFailed {
		return v1.PodFailed
	}
	var running, waiting, stopped, succeeded int
	restarts := false
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		switch {
		case c.State.Running != nil:
			running++
		case c.State.Terminated != nil:
			stopped++
			if c.State.Terminated.ExitCode == 0 {
				succeeded++
			}
			restarts = restarts || Restarts(spec, &spec.Containers[i], c.State.Terminated.ExitCode)
		case c.LastTerminationState.Terminated != nil:
			stopped++
			restarts = true
		default:
			waiting++
		}
	}
	switch {
	case ended && running == 0:
		if succeeded == len(s.ContainerStatuses) {
			return v1.PodSucceeded
		}
		return v1.PodFailed
	case initializing, waiting > 0:
		return v1.PodPending
	case running > 0, restarts:
		return v1.PodRunning
	case stopped > 0 && stopped == succeeded:
		return v1.PodSucceeded
	case stopped > 0:
		return v1.PodFailed
	default:
		return v1.PodPending
	}
}

// Restarts tells whether a container that exited with a code is to run again:
// the container's own policy and rules come before the pod's.
func Restarts(spec *v1.PodSpec, c *v1.Container, exit int32) bool {
	for _, r := range c.RestartPolicyRules {
		if r.ExitCodes == nil {
			continue
		}
		in := false
		for _, v := range r.ExitCodes.Values {
			in = in || v == exit
		}
		if in == (r.ExitCodes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn) {
			return r.Action == v1.ContainerRestartRuleActionRestart
		}
	}
	policy := string(spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = string(*c.RestartPolicy)
	}
	switch policy {
	case string(v1.RestartPolicyNever):
		return false
	case string(v1.RestartPolicyOnFailure):
		return exit != 0
	}
	return true
}

// neverAgain tells whether an init container that failed ends the pod.
func neverAgain(spec *v1.PodSpec, c *v1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == v1.ContainerRestartPolicyNever
	}
	return spec.RestartPolicy == v1.RestartPolicyNever
}
