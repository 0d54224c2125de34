package scheduler

import (
	"container/heap"

	corev1 "k8s.io/api/core/v1"
)

// shape is the waiting pods that fit, or do not, for the same reasons: those of
// one workload, mostly. What changed is looked at once for all of them.
type shape struct {
	pods  shapeHeap // the next to be placed first
	ruled bool      // rules about other pods have a part in it
}

// sample stands for all.
func (s *shape) sample() *podInfo { return s.pods[0] }

// shapeOf is the same for pods that are alike to all that placing looks at.
func shapeOf(p *podInfo) string {
	spec := &p.pod.Spec
	alike := corev1.PodSpec{NodeName: spec.NodeName, NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
		TopologySpreadConstraints: spec.TopologySpreadConstraints, SchedulerName: spec.SchedulerName, Priority: &p.priority,
		Overhead: spec.Overhead, Resources: spec.Resources, HostNetwork: spec.HostNetwork}
	keep := func(containers []corev1.Container) []corev1.Container {
		out := make([]corev1.Container, 0, len(containers))
		for i := range containers {
			c := &containers[i]
			out = append(out, corev1.Container{Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
		}
		return out
	}
	alike.Containers, alike.InitContainers = keep(spec.Containers), keep(spec.InitContainers)
	data, err := alike.Marshal()
	if err != nil || len(p.profile.filters)+len(p.claims)+len(p.disks)+len(spec.ResourceClaims) > 0 {
		return p.key.String() // alike to itself only: plugins may look at anything, volumes are its own
	}
	return p.group + "\x00" + string(data)
}

type shapeHeap []*podInfo

func (h shapeHeap) Len() int           { return len(h) }
func (h shapeHeap) Less(i, j int) bool { return before(h[i], h[j]) }
func (h shapeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].queued.peer, h[j].queued.peer = i, j
}

func (h *shapeHeap) Push(x any) {
	p := x.(*podInfo)
	p.queued.peer = len(*h)
	*h = append(*h, p)
}

func (h *shapeHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}

// shapes are the waiting pods by shape.
type shapes struct {
	all   map[string]*shape
	ruled map[string]*shape // those of all that rules keep out
	pods  int
}

func newShapes() shapes { return shapes{all: map[string]*shape{}, ruled: map[string]*shape{}} }

func (ss *shapes) add(p *podInfo) {
	key := shapeOf(p)
	if p.queued.ruled {
		key += "\x00ruled"
	}
	p.queued.shape = key
	s := ss.all[key]
	if s == nil {
		s = &shape{ruled: p.queued.ruled}
		ss.all[key] = s
		if s.ruled {
			ss.ruled[key] = s
		}
	}
	heap.Push(&s.pods, p)
	ss.pods++
}

func (ss *shapes) remove(p *podInfo) {
	s := ss.all[p.queued.shape]
	heap.Remove(&s.pods, p.queued.peer)
	ss.pods--
	if len(s.pods) == 0 {
		delete(ss.all, p.queued.shape)
		delete(ss.ruled, p.queued.shape)
	}
}
