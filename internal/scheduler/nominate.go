package scheduler

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// nominations are the pods for which room is being made on a node. Until they
// are placed, pods that are no more urgent count them as if they were there.
type nominations struct {
	on   map[string]map[types.NamespacedName]*podInfo // by node
	node map[types.NamespacedName]string
}

func newNominations() nominations {
	return nominations{on: map[string]map[types.NamespacedName]*podInfo{}, node: map[types.NamespacedName]string{}}
}

func (ns *nominations) set(p *podInfo, node string) {
	ns.forget(p.key)
	if node == "" {
		return
	}
	if ns.on[node] == nil {
		ns.on[node] = map[types.NamespacedName]*podInfo{}
	}
	ns.on[node][p.key] = p
	ns.node[p.key] = node
}

func (ns *nominations) forget(key types.NamespacedName) {
	node, ok := ns.node[key]
	if !ok {
		return
	}
	delete(ns.node, key)
	if delete(ns.on[node], key); len(ns.on[node]) == 0 {
		delete(ns.on, node)
	}
}

// with returns a node as if the pods nominated for it, that are not less
// urgent than p, were on it: n itself when there are none.
func (ns *nominations) with(p *podInfo, n *nodeInfo) *nodeInfo {
	room := n
	for key, q := range ns.on[n.name] {
		if key == p.key || q.priority < p.priority || n.pods[key] != nil {
			continue
		}
		if room == n {
			room = n.clone()
		}
		room.add(q)
	}
	return room
}

// keys lists the pods nominated for a node, the most urgent first.
func (ns *nominations) keys(node string) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(ns.on[node]), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(ns.on[node][b].priority, ns.on[node][a].priority), cmp.Compare(a.String(), b.String()))
	})
}

// below lists the pods nominated for a node that are less urgent than p.
func (ns *nominations) below(p *podInfo, node string) (out []*podInfo) {
	for _, q := range ns.on[node] {
		if q.priority < p.priority {
			out = append(out, q)
		}
	}
	return out
}
