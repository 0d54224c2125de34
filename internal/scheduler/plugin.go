package scheduler

import (
	corev1 "k8s.io/api/core/v1"
)

// Plugin is a rule of one's own: a Filter, a Scorer or both. It is asked from
// one goroutine and must be quick: no I/O.
type Plugin interface {
	// Name by which a profile weighs or disables it.
	Name() string
}

// Filter says whether a pod may be on a node.
type Filter interface {
	Plugin
	// Filter returns why not, as a few words that follow a number of nodes
	// ("node(s) had no licence"), or "".
	Filter(pod *corev1.Pod, node Node) (reason string)
}

// Scorer says how good a node is for a pod.
type Scorer interface {
	Plugin
	// Score is 0 to 100.
	Score(pod *corev1.Pod, node Node) int64
}

// Node is a node as plugins see it. It is valid during the call.
type Node struct{ n *nodeInfo }

// Object is the node as the API shows it. It is shared: not to be changed.
func (n Node) Object() *corev1.Node { return n.n.node }

// Pods is how many pods are on the node or on their way to it.
func (n Node) Pods() int { return len(n.n.pods) }

// Requested is what its pods ask for: CPU in thousandths, the rest in units.
func (n Node) Requested(name corev1.ResourceName) int64 { return n.n.requested.of(name) }

// Allocatable is what there is for pods in all, as Requested counts.
func (n Node) Allocatable(name corev1.ResourceName) int64 { return n.n.allocatable.of(name) }

func (a *amounts) of(name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return a.milliCPU
	case corev1.ResourceMemory:
		return a.memory
	case corev1.ResourceEphemeralStorage:
		return a.ephemeral
	}
	return a.scalar[name]
}

// refusedBy returns why a plugin keeps a pod from a node, or "".
func (p *profile) refusedBy(pod *corev1.Pod, n *nodeInfo) string {
	for _, f := range p.filters {
		if reason := f.Filter(pod, Node{n}); reason != "" {
			return reason
		}
	}
	return ""
}
