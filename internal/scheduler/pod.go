package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/setpoint-project/setpoint/internal/scheduler/devices"
	"github.com/setpoint-project/setpoint/internal/scheduler/volumes"
)

// podInfo is a pod with what placing it needs, worked out once for each
// revision of the pod. It is immutable but for the fields of the queue and of
// the attempt to place it.
type podInfo struct {
	// pod is nil once the pod is seen on its node: the index does not keep
	// revisions of pods alive that the server has let go of.
	pod        *corev1.Pod
	key        types.NamespacedName
	uid        types.UID
	generation int64
	priority   int32
	profile    *profile

	requests              amounts
	scoreCPU, scoreMemory int64
	ports                 []hostPort
	bound                 string                                 // to the one node of this name; "": to none
	required              *nodeaffinity.RequiredNodeAffinity     // besides; nil: any node
	preferred             *nodeaffinity.PreferredSchedulingTerms // nil: none
	tolerations           string                                 // see tolerationsKey

	claims []types.NamespacedName // of its volumes
	disks  []volumes.Disk

	labels  labels.Set
	group   string    // of its namespace and labels
	leaving bool      // it is being deleted
	terms   *podTerms // nil: no rules about other pods
	images  []string  // of its containers

	nominated string    // the node on which room was made for it
	placid    bool      // it never makes others leave
	binder    *Extender // that writes its binding; nil: the scheduler

	among    *cluster // in which needs are looked at
	selected *nodeSet // of required; nil: match each node anew
	// Of the present attempt, or the last; nil: none known.
	needs   *volumes.Needs
	devices *devices.Needs
	// That are held for it; nil: none.
	choice     *volumes.Choice
	allocation *devices.Choice

	queued queueState // of the queue alone
}

// hostPort is a port of the node that a pod wants for itself.
type hostPort struct {
	ip       string // "0.0.0.0" for every address
	protocol corev1.Protocol
	port     int32
}

func newPodInfo(pod *corev1.Pod) *podInfo { return newPodInfoOf(pod, defaultProfile) }

// newPodInfoOf is newPodInfo for a pod of a profile.
func newPodInfoOf(pod *corev1.Pod, of *profile) *podInfo {
	p := &podInfo{
		profile:    of,
		pod:        pod,
		key:        types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		uid:        pod.UID,
		generation: pod.Generation,
		priority:   schedulingv1.PodPriority(pod),
		ports:      hostPorts(pod),
		labels:     pod.Labels,
		group:      groupKey(pod.Namespace, pod.Labels),
		leaving:    pod.DeletionTimestamp != nil,
		images:     imagesOf(pod),
		nominated:  pod.Status.NominatedNodeName,
		placid:     pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever,
		terms:      newPodTerms(pod, of),
		disks:      volumes.DisksOf(pod),

		tolerations: tolerationsKey(pod.Spec.Tolerations),
	}
	for _, name := range volumes.ClaimsOf(pod) {
		p.claims = append(p.claims, types.NamespacedName{Namespace: pod.Namespace, Name: name})
	}
	p.requests, p.scoreCPU, p.scoreMemory = podRequests(pod)
	var affinity *corev1.NodeAffinity
	if pod.Spec.Affinity != nil {
		affinity = pod.Spec.Affinity.NodeAffinity
	}
	var alone bool
	p.bound, alone = boundTo(pod)
	if !alone && (len(pod.Spec.NodeSelector) > 0 || affinity != nil && affinity.RequiredDuringSchedulingIgnoredDuringExecution != nil) {
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
	placed := &podInfo{key: p.key, uid: p.uid, generation: p.generation, priority: p.priority, labels: p.labels, group: p.group, leaving: p.leaving,
		requests: p.requests, scoreCPU: p.scoreCPU, scoreMemory: p.scoreMemory, ports: p.ports, claims: p.claims, disks: p.disks}
	if t := p.terms; t != nil && len(t.antiAffinity)+len(t.affinity)+len(t.preferred) > 0 {
		placed.terms = &podTerms{antiAffinity: t.antiAffinity, affinity: t.affinity, preferred: t.preferred} // others heed these
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
	refused            // then
	shape    string    // while it waits, and
	peer     int       // its place in the heap there
}
