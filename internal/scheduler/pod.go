package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// podInfo is a pod with what placing it needs, worked out once for each
// revision of the pod. It is immutable but for the fields of the queue.
type podInfo struct {
	// pod is nil once the pod is seen on its node: the index does not keep
	// revisions of pods alive that the server has let go of.
	pod        *corev1.Pod
	key        types.NamespacedName
	uid        types.UID
	generation int64
	priority   int32

	requests              amounts
	scoreCPU, scoreMemory int64
	ports                 []hostPort
	required              *nodeaffinity.RequiredNodeAffinity     // nil: any node
	preferred             *nodeaffinity.PreferredSchedulingTerms // nil: none

	labels  labels.Set
	leaving bool      // it is being deleted
	terms   *podTerms // nil: no required rules about other pods

	queued queueState // of the queue alone
}

// hostPort is a port of the node that a pod wants for itself.
type hostPort struct {
	ip       string // "0.0.0.0" for every address
	protocol corev1.Protocol
	port     int32
}

func newPodInfo(pod *corev1.Pod) *podInfo {
	p := &podInfo{
		pod:        pod,
		key:        types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		uid:        pod.UID,
		generation: pod.Generation,
		priority:   schedulingv1.PodPriority(pod),
		ports:      hostPorts(pod),
		labels:     pod.Labels,
		leaving:    pod.DeletionTimestamp != nil,
		terms:      newPodTerms(pod),
	}
	p.requests, p.scoreCPU, p.scoreMemory = podRequests(pod)
	var affinity *corev1.NodeAffinity
	if pod.Spec.Affinity != nil {
		affinity = pod.Spec.Affinity.NodeAffinity
	}
	if len(pod.Spec.NodeSelector) > 0 || affinity != nil && affinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		required := nodeaffinity.GetRequiredNodeAffinity(pod)
		p.required = &required
	}
	if affinity != nil && len(affinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		// A term that does not parse was refused by validation; should one
		// be here all the same it is as good as none.
		p.preferred, _ = nodeaffinity.NewPreferredSchedulingTerms(affinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return p
}

// onNode returns what the index keeps of a pod that is on its node.
func (p *podInfo) onNode() *podInfo {
	placed := &podInfo{key: p.key, uid: p.uid, generation: p.generation, labels: p.labels, leaving: p.leaving,
		requests: p.requests, scoreCPU: p.scoreCPU, scoreMemory: p.scoreMemory, ports: p.ports}
	if p.terms != nil && len(p.terms.antiAffinity) > 0 {
		placed.terms = &podTerms{antiAffinity: p.terms.antiAffinity} // these others must heed
	}
	return placed
}

func hostPorts(pod *corev1.Pod) []hostPort {
	var ports []hostPort
	collect := func(containers []corev1.Container) {
		for i := range containers {
			for _, port := range containers[i].Ports {
				if port.HostPort <= 0 {
					continue
				}
				p := hostPort{ip: port.HostIP, protocol: port.Protocol, port: port.HostPort}
				if p.ip == "" || p.ip == "::" {
					p.ip = anyAddress
				}
				if p.protocol == "" {
					p.protocol = corev1.ProtocolTCP
				}
				ports = append(ports, p)
			}
		}
	}
	collect(pod.Spec.Containers)
	for i := range pod.Spec.InitContainers {
		// Only sidecars hold their ports beside the other containers.
		if c := pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			collect(pod.Spec.InitContainers[i : i+1])
		}
	}
	return ports
}

const anyAddress = "0.0.0.0"

func (p hostPort) conflicts(q hostPort) bool {
	return p.port == q.port && p.protocol == q.protocol && (p.ip == q.ip || p.ip == anyAddress || q.ip == anyAddress)
}

// terminal reports that a pod has ended and holds nothing of its node.
func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// queueState is the queue's own about a pod.
type queueState struct {
	where    place
	index    int // in the heap
	added    time.Time
	number   uint64    // of those added
	attempts int       // since it was last placed, for the back-off
	due      time.Time // when the back-off ends
	wokenBy  string    // the node whose change woke the pod, or ""
	parked   time.Time // when it was last found to fit nowhere
	ruled    bool      // then: rules about other pods had a part in it
}
