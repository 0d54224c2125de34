package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func podColumns() []kinds.Column {
	status, spec := corev1.PodStatus{}.SwaggerDoc(), corev1.PodSpec{}.SwaggerDoc()
	return []kinds.Column{
		strategy.Name(),
		strategy.Column("Ready", "string", "The aggregate readiness state of this pod for accepting traffic.", func(p *corev1.Pod) any {
			s := summarize(p)
			return fmt.Sprintf("%d/%d", s.ready, s.total)
		}),
		strategy.Column("Status", "string", "The aggregate status of the containers in this pod.", func(p *corev1.Pod) any { return summarize(p).reason }),
		strategy.Column("Restarts", "string", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.", func(p *corev1.Pod) any {
			s := summarize(p)
			if s.restarts == 0 || s.lastRestart.IsZero() {
				return fmt.Sprint(s.restarts)
			}
			return fmt.Sprintf("%d (%s ago)", s.restarts, strategy.Since(s.lastRestart))
		}),
		strategy.Age(),
		strategy.Wide("IP", "string", status["podIP"], func(p *corev1.Pod) any {
			if len(p.Status.PodIPs) > 0 {
				return orNone(p.Status.PodIPs[0].IP)
			}
			return orNone(p.Status.PodIP)
		}),
		strategy.Wide("Node", "string", spec["nodeName"], func(p *corev1.Pod) any { return orNone(p.Spec.NodeName) }),
		strategy.Wide("Nominated Node", "string", status["nominatedNodeName"], func(p *corev1.Pod) any { return orNone(p.Status.NominatedNodeName) }),
		strategy.Wide("Readiness Gates", "string", spec["readinessGates"], func(p *corev1.Pod) any { return readinessGates(p) }),
	}
}

// orNone is how tables show what is not there.
func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

func readinessGates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	open := 0
	for _, gate := range p.Spec.ReadinessGates {
		if conditionTrue(p, gate.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(p.Spec.ReadinessGates))
}

func conditionTrue(p *corev1.Pod, t corev1.PodConditionType) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// summary is a pod in a line.
type summary struct {
	reason      string
	ready       int
	total       int
	restarts    int
	lastRestart metav1.Time
}

func (s *summary) restarted(c *corev1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && s.lastRestart.Before(&t.FinishedAt) {
		s.lastRestart = t.FinishedAt
	}
}

// nodeLost is the reason of pods whose node has been silent for too long.
const nodeLost = "NodeLost"

// summarize says in a word how a pod is: the first of what holds it up, as
// `kubectl get pods` has shown it from the beginning.
func summarize(p *corev1.Pod) summary {
	s := summary{reason: string(p.Status.Phase), total: len(p.Spec.Containers)}
	if p.Status.Reason != "" {
		s.reason = p.Status.Reason
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	for i := range p.Spec.InitContainers {
		if sidecar(&p.Spec.InitContainers[i]) {
			s.total++
		}
	}
	beside, waiting := s.initContainers(p)
	if !waiting || conditionTrue(p, corev1.PodInitialized) {
		// From here on only those restarts count that are of now.
		s.restarts, s.lastRestart = beside.restarts, beside.lastRestart
		s.containers(p)
	}
	switch {
	case p.DeletionTimestamp == nil:
	case p.Status.Reason == nodeLost:
		s.reason = "Unknown"
	case p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded:
		s.reason = "Terminating"
	}
	return s
}

// initContainers looks at what must run first. It returns the restarts of
// sidecars, and whether the pod still waits for one of the others.
func (s *summary) initContainers(p *corev1.Pod) (beside summary, waiting bool) {
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		s.restarted(c)
		stays := false
		for j := range p.Spec.InitContainers {
			if p.Spec.InitContainers[j].Name == c.Name {
				stays = sidecar(&p.Spec.InitContainers[j])
			}
		}
		if stays {
			beside.restarted(c)
		}
		switch t, w := c.State.Terminated, c.State.Waiting; {
		case t != nil && t.ExitCode == 0:
			continue
		case stays && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case t != nil:
			s.reason = "Init:" + ended(t)
		case w != nil && w.Reason != "" && w.Reason != "PodInitializing":
			s.reason = "Init:" + w.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return beside, true
	}
	return beside, false
}

func ended(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

func (s *summary) containers(p *corev1.Pod) {
	running := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.restarted(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.reason = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.reason = ended(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason == "Completed" && running {
		s.reason = "NotReady"
		if conditionTrue(p, corev1.PodReady) {
			s.reason = "Running"
		}
	}
}
