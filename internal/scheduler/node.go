package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/scheduler/volumes"
)

// nodeInfo is a node with the sum of what its pods hold, so that a look at it
// costs the same however many pods it has.
type nodeInfo struct {
	name string
	// node is nil while pods are known to be on a node that is not.
	node  *corev1.Node
	index int // in cluster.list; -1 while node is nil

	allocatable   amounts
	maxPods       int
	unschedulable bool
	hardTaints    []corev1.Taint   // NoSchedule and NoExecute
	softTaints    []corev1.Taint   // PreferNoSchedule
	images        map[string]int64 // bytes, by name

	pods                  map[types.NamespacedName]*podInfo
	requested             amounts
	scoreCPU, scoreMemory int64
	ports                 []hostPort // of all pods together
	disks                 []volumes.Disk
	claims                map[types.NamespacedName]int // how many pods use each
}

// setNode takes over what the API says of the node.
func (n *nodeInfo) setNode(node *corev1.Node) {
	n.node = node
	n.allocatable = amountsOf(node.Status.Allocatable)
	n.maxPods = int(node.Status.Allocatable.Pods().Value())
	n.unschedulable = node.Spec.Unschedulable
	n.setImages(node)
	n.hardTaints, n.softTaints = nil, nil
	for _, taint := range node.Spec.Taints {
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute:
			n.hardTaints = append(n.hardTaints, taint)
		case corev1.TaintEffectPreferNoSchedule:
			n.softTaints = append(n.softTaints, taint)
		}
	}
}

func (n *nodeInfo) add(p *podInfo) {
	if n.pods == nil {
		n.pods = map[types.NamespacedName]*podInfo{}
	}
	n.pods[p.key] = p
	n.count(p, 1)
	n.ports = append(n.ports, p.ports...)
	n.disks = append(n.disks, p.disks...)
	for _, key := range p.claims {
		if n.claims == nil {
			n.claims = map[types.NamespacedName]int{}
		}
		n.claims[key]++
	}
}

func (n *nodeInfo) remove(key types.NamespacedName) {
	p, ok := n.pods[key]
	if !ok {
		return
	}
	delete(n.pods, key)
	n.count(p, -1)
	for _, port := range p.ports {
		if i := slices.Index(n.ports, port); i >= 0 {
			n.ports = slices.Delete(n.ports, i, i+1)
		}
	}
	for d := range p.disks {
		if i := slices.IndexFunc(n.disks, func(x volumes.Disk) bool { return x.Same(&p.disks[d]) }); i >= 0 {
			n.disks = slices.Delete(n.disks, i, i+1)
		}
	}
	for _, key := range p.claims {
		if n.claims[key]--; n.claims[key] == 0 {
			delete(n.claims, key)
		}
	}
}

func (n *nodeInfo) count(p *podInfo, sign int64) {
	n.requested.add(&p.requests, sign)
	n.scoreCPU += sign * p.scoreCPU
	n.scoreMemory += sign * p.scoreMemory
}

// clone returns a copy that add may change without changing n.
func (n *nodeInfo) clone() *nodeInfo {
	c := *n
	c.pods = maps.Clone(n.pods)
	c.ports = slices.Clone(n.ports)
	c.disks = slices.Clone(n.disks)
	c.claims = maps.Clone(n.claims)
	c.requested.scalar = maps.Clone(n.requested.scalar)
	return &c
}

// sameForPlacing reports that between two states of a node nothing changed
// that placing a pod looks at. Most updates of a node are heartbeats.
func sameForPlacing(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(x, y corev1.Taint) bool {
			return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect
		}) &&
		maps.Equal(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}
