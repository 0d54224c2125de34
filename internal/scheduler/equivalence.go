package scheduler

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// equivalence is pods that every node takes, or does not, alike, and that every
// node scores alike by its own room: those of one workload, mostly. What a node
// said of one is remembered until the node or its pods change, so that of
// thousands of like pods each asks anew only where the last one went. Rules
// about other pods, nominations and preferences are no part of it.
type equivalence struct {
	opinions []opinion // by nodeInfo.index; nil: only one pod has asked so far
	used     uint64    // the attempt that last asked
}

// opinion is what a node said.
type opinion struct {
	version uint64 // of the node, as in cluster.versions
	fits    bool
	score   int64 // resourceScore, if it fits
}

// equivalenceKey is all that fits and resourceScore look at in a pod.
type equivalenceKey struct {
	profile     *profile
	selected    *nodeSet
	tolerations string

	milliCPU, memory, ephemeral int64
	scoreCPU, scoreMemory       int64
}

// mostEquivalences bounds what is remembered: 24 bytes for each and each node.
const mostEquivalences = 64

// equivalenceOf finds what is remembered for pods like p, after its node set was
// found. It is nil for a pod that is the first of its kind, and for those that
// are each a case of their own: with ports, volumes, scarce resources or
// plugins that may look at anything.
func (c *cluster) equivalenceOf(p *podInfo) *equivalence {
	if p.needs != nil || len(p.disks) > 0 || len(p.ports) > 0 || len(p.requests.scalar) > 0 || len(p.profile.filters) > 0 ||
		p.pod.Spec.NodeName != "" || p.bound != "" || p.required != nil && p.selected == nil {
		return nil
	}
	key := equivalenceKey{profile: p.profile, selected: p.selected, tolerations: p.tolerations,
		milliCPU: p.requests.milliCPU, memory: p.requests.memory, ephemeral: p.requests.ephemeral,
		scoreCPU: p.scoreCPU, scoreMemory: p.scoreMemory}
	e := c.equivalences[key]
	if e == nil {
		if len(c.equivalences) >= mostEquivalences {
			clear(c.equivalences)
		}
		c.equivalences[key] = &equivalence{used: c.groups.now}
		return nil
	}
	e.used = c.groups.now
	if short := len(c.list) - len(e.opinions); short > 0 {
		e.opinions = append(e.opinions, make([]opinion, short)...)
	}
	return e
}

// ask returns whether the node of an index fits and its score, as fits and
// resourceScore say.
func (c *cluster) ask(e *equivalence, p *podInfo, index int) (score int64, ok bool) {
	if e == nil {
		n := c.list[index]
		if !fits(p, n) {
			return 0, false
		}
		return resourceScore(p, n), true
	}
	v := &e.opinions[index]
	if version := c.versions[index]; v.version != version {
		n := c.list[index]
		*v = opinion{version: version, fits: fits(p, n)}
		if v.fits {
			v.score = resourceScore(p, n)
		}
	}
	return v.score, v.fits
}

// touch makes what was remembered of a node void. It follows each change of the
// node, of its pods and of its index.
func (c *cluster) touch(n *nodeInfo) {
	if n.index < 0 {
		return
	}
	for len(c.versions) <= n.index {
		c.versions = append(c.versions, 0)
	}
	c.version++
	c.versions[n.index] = c.version
}

// forgetEquivalences drops those that no attempt since the given one asked for.
func (c *cluster) forgetEquivalences(since uint64) {
	for key, e := range c.equivalences {
		if e.used < since {
			delete(c.equivalences, key)
		}
	}
}

// tolerationsKey is the same for pods that tolerate the same taints.
func tolerationsKey(list []corev1.Toleration) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	n := 0
	for i := range list {
		t := &list[i]
		n += len(t.Key) + len(t.Operator) + len(t.Value) + len(t.Effect) + 4
	}
	b.Grow(n)
	for i := range list {
		t := &list[i]
		for _, part := range []string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
			b.WriteString(part)
			b.WriteByte(0)
		}
	}
	return b.String()
}
