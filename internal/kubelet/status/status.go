// Package status computes a pod's status from what the runtime has and what
// the kubelet knows: a pure function, without I/O or clock.
//
//	spec, old status --+
//	runtime state -----+--> Compute --> PodStatus --> written if Equal says no
//	probes, waits -----+
//
// Phases, conditions and reasons are those of
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/.
// Conditions of others (readiness gates, DisruptionTarget) are kept as they
// are.
//
// Concurrency: pure, so any.
package status

import (
	"time"

	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Health is what the probes say about one running container.
type Health struct {
	Started bool // the startup probe passed, or there is none
	Ready   bool // the readiness probe passes, or there is none
}

// Failure ends a pod for a reason of the node's: refused, too slow, evicted.
type Failure struct {
	Reason  string
	Message string
	// Disruption: the pod is not to blame, which its owner may want to know.
	Disruption bool
}

// Pending says why a resize has to wait: v1.PodReasonInfeasible or
// v1.PodReasonDeferred.
type Pending struct{ Reason, Message string }

// Resize is how far the resize of a pod's resources has come.
type Resize struct {
	Pending *Pending // nil: the node has room for it, or there is none
	Error   string   // why the last try did not succeed
}

// Input is everything a status follows from.
type Input struct {
	Now   time.Time
	Pod   *v1.Pod // as the API server shows it, with its last status
	State *cri.State
	// Waiting says, by container name, why a container that does not run does
	// not: an image that cannot be pulled, a back-off.
	Waiting map[string]v1.ContainerStateWaiting
	// Health by container id, of running containers. None means: not started.
	Health map[string]Health
	// Messages by container id: what containers left in their termination
	// message files.
	Messages map[string]string
	HostIPs  []string // of the node, primary first
	// Actual are the resources with which containers run, by id; none means:
	// as their spec says.
	Actual map[string]v1.ResourceRequirements
	Resize Resize
	// Failed is set for a pod that the node ended.
	Failed *Failure
	// Ended is set when nothing of the pod runs or will run again.
	Ended bool
}

// Compute is the pod's status.
func Compute(in Input) v1.PodStatus {
	pod, old := in.Pod, &in.Pod.Status
	s := v1.PodStatus{
		ObservedGeneration: pod.Generation,
		QOSClass:           old.QOSClass,
		StartTime:          old.StartTime,
		NominatedNodeName:  old.NominatedNodeName,
		Resize:             old.Resize,

		ResourceClaimStatuses:       old.ResourceClaimStatuses,
		ExtendedResourceClaimStatus: old.ExtendedResourceClaimStatus,
	}
	if s.QOSClass == "" {
		s.QOSClass = core.QOSClass(&pod.Spec)
	}
	if s.StartTime == nil {
		now := metav1.NewTime(in.Now.Truncate(time.Second))
		s.StartTime = &now
	}
	addresses(&s, in)
	if !neverBegan(in) {
		s.InitContainerStatuses = containers(in, old.InitContainerStatuses, pod.Spec.InitContainers, true)
		s.ContainerStatuses = containers(in, old.ContainerStatuses, pod.Spec.Containers, false)
		s.EphemeralContainerStatuses = containers(in, old.EphemeralContainerStatuses, ephemeral(pod), false)
	}

	s.Phase = Phase(&pod.Spec, &s, in.Ended)
	if in.Failed != nil {
		s.Phase, s.Reason, s.Message = v1.PodFailed, in.Failed.Reason, in.Failed.Message
	} else if terminal(old.Phase) {
		// What has ended never runs again, whatever the runtime forgot since.
		s.Phase, s.Reason, s.Message = old.Phase, old.Reason, old.Message
	}
	s.Conditions = conditions(in, &s)
	return s
}

// neverBegan tells whether a pod has failed before anything of it was begun: one
// that the node refused. Its containers wait for nothing, and clients show what
// a container waits for rather than why the pod has failed.
func neverBegan(in Input) bool {
	old := &in.Pod.Status
	return (in.Failed != nil || terminal(old.Phase)) && in.State.Empty() &&
		len(old.InitContainerStatuses) == 0 && len(old.ContainerStatuses) == 0
}

func terminal(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }

// addresses keeps the last known addresses of a pod whose sandbox is gone:
// people look for them after the end, and no one routes to an unready pod.
func addresses(s *v1.PodStatus, in Input) {
	for _, ip := range in.HostIPs {
		s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip})
	}
	if len(in.HostIPs) > 0 {
		s.HostIP = in.HostIPs[0]
	}
	b := in.State.ReadySandbox()
	switch {
	case b != nil && in.Pod.Spec.HostNetwork:
		for _, ip := range in.HostIPs {
			s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip})
		}
	case b != nil:
		for _, ip := range b.IPs {
			s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip})
		}
	default:
		s.PodIPs = in.Pod.Status.PodIPs
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
}

func ephemeral(pod *v1.Pod) []v1.Container {
	var cs []v1.Container
	for i := range pod.Spec.EphemeralContainers {
		cs = append(cs, v1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return cs
}

// Equal tells whether writing b over a would change nothing that matters: the
// rule of a quiet cluster.
func Equal(a, b *v1.PodStatus) bool { return equality.Semantic.DeepEqual(a, b) }
