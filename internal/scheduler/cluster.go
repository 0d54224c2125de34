package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// cluster is the index that pods are placed by: each node with the sums of its
// pods, kept up to date by what changed and never rebuilt.
//
//	API: pod on node ------ confirm --+
//	                                  v
//	place: pod -> node ---- assume -> nodeInfo.pods ---> sums
//	                                  ^
//	binding refused, pod gone ------ forget
//
// An assumed pod is one whose binding was sent and is not seen yet. It holds
// its place from then on, so that the next pod can be placed at once. It is
// owned by the scheduler's goroutine.
type cluster struct {
	nodes map[string]*nodeInfo // every node, and names that only pods know
	list  []*nodeInfo          // the nodes that exist, in no order that matters
	pods  map[types.NamespacedName]placed
	soft  int // how many nodes have a PreferNoSchedule taint
	// shy are the pods with anti-affinity, which the others must heed.
	shy             map[types.NamespacedName]bool
	namespaceLabels func(namespace string) labels.Set
}

type placed struct {
	info    *podInfo
	node    *nodeInfo
	assumed bool
}

func newCluster() *cluster {
	return &cluster{nodes: map[string]*nodeInfo{}, pods: map[types.NamespacedName]placed{}, shy: map[types.NamespacedName]bool{},
		namespaceLabels: func(string) labels.Set { return nil }}
}

// setNode adds or updates a node. It reports whether anything changed that
// placing looks at.
func (c *cluster) setNode(node *corev1.Node) bool {
	n := c.node(node.Name)
	if n.node == node {
		return false
	}
	if n.node == nil {
		n.index = len(c.list)
		c.list = append(c.list, n)
	} else {
		if sameForPlacing(n.node, node) {
			n.node = node
			return false
		}
		c.countSoft(n, -1)
	}
	n.setNode(node)
	c.countSoft(n, 1)
	return true
}

func (c *cluster) removeNode(name string) {
	n, ok := c.nodes[name]
	if !ok || n.node == nil {
		return
	}
	c.countSoft(n, -1)
	last := c.list[len(c.list)-1]
	c.list[n.index] = last
	last.index = n.index
	c.list = c.list[:len(c.list)-1]
	n.node, n.index = nil, -1
	c.tidy(n)
}

func (c *cluster) countSoft(n *nodeInfo, sign int) {
	if len(n.softTaints) > 0 {
		c.soft += sign
	}
}

func (c *cluster) node(name string) *nodeInfo {
	n, ok := c.nodes[name]
	if !ok {
		n = &nodeInfo{name: name, index: -1}
		c.nodes[name] = n
	}
	return n
}

// tidy lets go of a name that neither a node nor a pod has.
func (c *cluster) tidy(n *nodeInfo) {
	if n.node == nil && len(n.pods) == 0 {
		delete(c.nodes, n.name)
	}
}

// assume holds a place for p on a node.
func (c *cluster) assume(p *podInfo, n *nodeInfo) {
	c.forget(p.key)
	c.put(placed{info: p, node: n, assumed: true})
}

func (c *cluster) put(at placed) {
	at.node.add(at.info)
	c.pods[at.info.key] = at
	if t := at.info.terms; t != nil && len(t.antiAffinity) > 0 {
		c.shy[at.info.key] = true
	}
}

// confirm takes over that the API says p is on a node. It returns the node
// that p has left, if there is one: room is free there.
func (c *cluster) confirm(p *podInfo, node string) (left *nodeInfo) {
	if at, ok := c.pods[p.key]; ok {
		left = at.node
	}
	c.forget(p.key)
	n := c.node(node)
	c.put(placed{info: p, node: n})
	if left == n {
		return nil
	}
	return left
}

// forget lets go of a pod's place and returns the node it was on, or nil.
func (c *cluster) forget(key types.NamespacedName) *nodeInfo {
	at, ok := c.pods[key]
	if !ok {
		return nil
	}
	delete(c.pods, key)
	delete(c.shy, key)
	at.node.remove(key)
	c.tidy(at.node)
	return at.node
}
