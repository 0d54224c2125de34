package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
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
	hard  int // how many have another

	groups     *groups // the pods on nodes that exist
	topologies map[string]*topology
	priorities map[int32]int                // how many pods have a priority
	images     map[string]int               // how many nodes have an image
	users      map[types.NamespacedName]int // how many pods use a claim
	nodeSets   map[string]*nodeSet          // of nodes, by what selects them
	// What nodes said of pods, and of which version of the node it was said, by
	// its index; see touch.
	equivalences map[equivalenceKey]*equivalence
	versions     []uint64
	version      uint64 // the last that was given

	nominated nominations
	started   func(*podInfo) time.Time // when a pod began to run
}

type placed struct {
	info    *podInfo
	node    *nodeInfo
	assumed bool
	// revision of the pod that was looked at last: as long as it has no other,
	// there is nothing new to see. 0: none known.
	revision uint64
}

func newCluster() *cluster {
	c := &cluster{nodes: map[string]*nodeInfo{}, pods: map[types.NamespacedName]placed{}, groups: newGroups(),
		topologies: map[string]*topology{}, priorities: map[int32]int{}, images: map[string]int{}, users: map[types.NamespacedName]int{}, nodeSets: map[string]*nodeSet{}, equivalences: map[equivalenceKey]*equivalence{}, nominated: newNominations(),
		started: func(*podInfo) time.Time { return time.Time{} }}
	c.groups.topologyOf = c.topologyOf
	return c
}

// setNode adds or updates a node. It reports whether anything changed that
// placing looks at.
func (c *cluster) setNode(node *corev1.Node) bool {
	n := c.node(node.Name)
	switch {
	case n.node == node:
		return false
	case n.node == nil:
		n.index = len(c.list)
		c.list = append(c.list, n)
		c.selectAgain(n.index)
	case sameForPlacing(n.node, node):
		c.countImages(n, -1)
		n.node = node
		n.setImages(node)
		c.countImages(n, 1)
		return false
	default:
		c.countTraits(n, -1)
		c.selectAgain(n.index)
	}
	n.setNode(node)
	c.countTraits(n, 1)
	c.touch(n)
	return true
}

func (c *cluster) removeNode(name string) {
	n, ok := c.nodes[name]
	if !ok || n.node == nil {
		return
	}
	c.countTraits(n, -1)
	if last := c.list[len(c.list)-1]; last != n { // what is counted by index moves with it
		c.countNode(last, -1)
		c.list[n.index], last.index = last, n.index
		c.countNode(last, 1)
		c.touch(last)
	}
	c.selectAgain(n.index)
	c.list = c.list[:len(c.list)-1]
	n.node, n.index = nil, -1
	c.tidy(n)
}

// countTraits counts what is counted of a node that exists.
func (c *cluster) countTraits(n *nodeInfo, sign int) {
	if len(n.softTaints) > 0 {
		c.soft += sign
	}
	if len(n.hardTaints) > 0 {
		c.hard += sign
	}
	c.countImages(n, sign)
	c.countNode(n, sign)
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
	c.touch(at.node)
	c.pods[at.info.key] = at
	c.priorities[at.info.priority]++
	for _, key := range at.info.claims {
		c.users[key]++
	}
	if at.node.node != nil {
		c.groups.count(at.info, at.node, 1)
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

// saw notes which revision of a pod that is held was looked at.
func (c *cluster) saw(pod *corev1.Pod) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if at, held := c.pods[key]; held {
		at.revision = revisionOf(pod.ResourceVersion)
		c.pods[key] = at
	}
}

// forget lets go of a pod's place and returns the node it was on, or nil.
func (c *cluster) forget(key types.NamespacedName) *nodeInfo {
	at, ok := c.pods[key]
	if !ok {
		return nil
	}
	delete(c.pods, key)
	if c.priorities[at.info.priority]--; c.priorities[at.info.priority] == 0 {
		delete(c.priorities, at.info.priority)
	}
	for _, key := range at.info.claims {
		if c.users[key]--; c.users[key] == 0 {
			delete(c.users, key)
		}
	}
	if at.node.node != nil {
		c.groups.count(at.info, at.node, -1)
	}
	at.node.remove(key)
	c.touch(at.node)
	c.tidy(at.node)
	return at.node
}
