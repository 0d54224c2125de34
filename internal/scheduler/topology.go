package scheduler

// topology knows, for a key that rules name, the domain that each node is in:
// nodes with the same value of the key share one. Domains are small numbers, so
// that what is counted by domain is an array, and to ask about a node costs no
// look at its labels.
type topology struct {
	key     string
	domains map[string]int32 // by value, of the values that nodes have
	of      []int32          // by nodeInfo.index; none: the node has not the key
	sizes   []int32          // how many nodes a domain has; 0: its number is free
	free    []int32
	nodes   int // that have the key
}

// none is the domain of a node without the key.
const none = -1

// topologyOf is kept up to date from the first question on.
func (c *cluster) topologyOf(key string) *topology {
	t := c.topologies[key]
	if t == nil {
		t = &topology{key: key, domains: map[string]int32{}, of: make([]int32, 0, len(c.list))}
		c.topologies[key] = t
		for _, n := range c.list {
			t.enter(n)
		}
	}
	return t
}

// enter takes in a node that exists.
func (t *topology) enter(n *nodeInfo) {
	for len(t.of) <= n.index {
		t.of = append(t.of, none)
	}
	value, ok := n.node.Labels[t.key]
	if !ok {
		t.of[n.index] = none
		return
	}
	d, known := t.domains[value]
	if !known {
		if last := len(t.free) - 1; last >= 0 {
			d, t.free = t.free[last], t.free[:last]
		} else {
			d, t.sizes = int32(len(t.sizes)), append(t.sizes, 0)
		}
		t.domains[value] = d
	}
	t.of[n.index] = d
	t.sizes[d]++
	t.nodes++
}

// leave lets go of a node, which is as it was when it entered. Its pods are
// counted no more: whatever counts by domain has nothing in one that is empty.
func (t *topology) leave(n *nodeInfo) {
	d := t.of[n.index]
	if t.of[n.index] = none; d == none {
		return
	}
	t.nodes--
	if t.sizes[d]--; t.sizes[d] == 0 {
		delete(t.domains, n.node.Labels[t.key])
		t.free = append(t.free, d)
	}
}

// countNode counts a node that exists, with its pods.
func (c *cluster) countNode(n *nodeInfo, sign int) {
	if sign > 0 {
		for _, t := range c.topologies {
			t.enter(n)
		}
	}
	for _, p := range n.pods {
		c.groups.count(p, n, int64(sign))
	}
	if sign < 0 {
		for _, t := range c.topologies {
			t.leave(n)
		}
	}
}
