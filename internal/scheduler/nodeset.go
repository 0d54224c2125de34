package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// nodeSet remembers which nodes a node selector and a required node affinity
// match, so that a node is matched once for all the pods of a workload, and
// once more when it changes.
type nodeSet struct {
	required *nodeaffinity.RequiredNodeAffinity
	known    []match // by nodeInfo.index
	used     uint64  // the attempt that last asked
	dropped  bool    // nobody keeps it up to date any more
}

type match int8

const (
	unknown match = iota
	yes
	no
)

// nodeSetKey is the same for pods that ask for the same nodes; "" for those
// that ask for none, or for one by its name.
func nodeSetKey(p *podInfo) string {
	if p.required == nil || p.bound != "" {
		return ""
	}
	spec := corev1.PodSpec{NodeSelector: p.pod.Spec.NodeSelector}
	if a := p.pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution}}
	}
	data, err := spec.Marshal()
	if err != nil {
		return ""
	}
	return string(data)
}

// nodeSetOf finds or makes the node set of a pod; nil when it has none.
func (c *cluster) nodeSetOf(p *podInfo) *nodeSet {
	if p.required == nil {
		return nil
	}
	if s := p.selected; s != nil && !s.dropped {
		s.used = c.groups.now
		return s
	}
	key := nodeSetKey(p)
	if key == "" {
		return nil
	}
	s := c.nodeSets[key]
	if s == nil {
		s = &nodeSet{required: p.required, known: make([]match, len(c.list))}
		c.nodeSets[key] = s
	}
	s.used = c.groups.now
	return s
}

// matches tells whether a node, as it is in the index, is one of them.
func (s *nodeSet) matches(n *nodeInfo) bool {
	if s.known[n.index] == unknown {
		s.known[n.index] = no
		if ok, err := s.required.Match(n.node); ok && err == nil {
			s.known[n.index] = yes
		}
	}
	return s.known[n.index] == yes
}

// selectAgain forgets what was known of the node of an index.
func (c *cluster) selectAgain(index int) {
	for _, s := range c.nodeSets {
		for len(s.known) <= index {
			s.known = append(s.known, unknown)
		}
		s.known[index] = unknown
	}
}

// forgetNodeSets drops those that no attempt since the given one asked for.
func (c *cluster) forgetNodeSets(since uint64) {
	for key, s := range c.nodeSets {
		if s.used < since {
			s.dropped = true
			delete(c.nodeSets, key)
		}
	}
}
