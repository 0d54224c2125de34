package scheduler

import (
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// groups are the placed pods by namespace and labels, which is all that rules
// about other pods see of them. There are as many as there are workloads, not
// pods.
//
//	pod placed, gone --> group --> tallies that its pods match
//	             \-----> held: a tally for each term that pods hold themselves
type groups struct {
	byKey map[string]*group
	about tallies // of pods that match terms which were asked for
	anti  tallies // of pods that hold a required anti-affinity term
	near  tallies // of pods that hold a required affinity term, for scores
	soft  tallies // of pods that hold a preferred term
	now   uint64  // the number of the attempt

	namespaceLabels func(string) labels.Set
	topologyOf      func(key string) *topology
}

// group is the pods of one namespace with the same labels.
type group struct {
	namespace string
	labels    labels.Set
	nodes     map[*nodeInfo]*crew
	about     []*tally // that its pods match
}

// crew is how many pods of a group a node has.
type crew struct{ living, leaving int64 }

func newGroups() *groups {
	return &groups{byKey: map[string]*group{}, about: newTallies(), anti: newTallies(), near: newTallies(), soft: newTallies(),
		namespaceLabels: func(string) labels.Set { return nil }}
}

// groupKey of a pod.
func groupKey(namespace string, set labels.Set) string {
	keys := make([]string, 0, len(set))
	n := len(namespace)
	for k, v := range set {
		keys = append(keys, k)
		n += len(k) + len(v) + 2
	}
	sort.Strings(keys)
	var b strings.Builder
	b.Grow(n)
	b.WriteString(namespace)
	for _, k := range keys {
		b.WriteByte(0)
		b.WriteString(k)
		b.WriteByte('=')
		b.WriteString(set[k])
	}
	return b.String()
}

// count adds a pod on a node that exists, or with sign -1 takes it away.
func (gs *groups) count(p *podInfo, n *nodeInfo, sign int64) {
	g := gs.byKey[p.group]
	if g == nil {
		g = &group{namespace: p.key.Namespace, labels: p.labels, nodes: map[*nodeInfo]*crew{}}
		gs.byKey[p.group] = g
		gs.about.each(p.labels, func(t *tally) {
			if t.matches(g.namespace, g.labels, gs.namespaceLabels) {
				g.about = append(g.about, t)
			}
		})
	}
	c := g.nodes[n]
	if c == nil {
		c = &crew{}
		g.nodes[n] = c
	}
	if p.leaving {
		c.leaving += sign
	} else {
		c.living += sign
	}
	if c.living == 0 && c.leaving == 0 {
		if delete(g.nodes, n); len(g.nodes) == 0 {
			delete(gs.byKey, p.group)
		}
	}
	for _, t := range g.about {
		if !t.living || !p.leaving {
			t.add(n, sign)
		}
	}
	if p.terms != nil {
		gs.hold(p.terms, n, sign)
	}
}

// hold counts the terms that a pod on a node holds.
func (gs *groups) hold(terms *podTerms, n *nodeInfo, sign int64) {
	for i := range terms.antiAffinity {
		gs.held(&gs.anti, &terms.antiAffinity[i], 1, n, sign)
	}
	for i := range terms.affinity {
		gs.held(&gs.near, &terms.affinity[i], 1, n, sign)
	}
	for i := range terms.preferred {
		gs.held(&gs.soft, &terms.preferred[i].term, terms.preferred[i].weight, n, sign)
	}
}

func (gs *groups) held(ts *tallies, t *term, weight int64, n *nodeInfo, sign int64) {
	id := t.id + string(rune(weight+1<<10))
	held := ts.byID[id]
	if held == nil {
		held = newTally(gs.topologyOf(t.topologyKey), []term{*t}, weight)
		held.holders = true
		ts.put(id, held)
	}
	held.add(n, sign)
	if held.total == 0 {
		ts.remove(id)
	}
}

// ask returns the tally of the pods that match terms.
func (gs *groups) ask(key string, terms []term, living bool) *tally {
	id := key
	for i := range terms {
		id += "\x01" + terms[i].id
	}
	if living {
		id += "\x01living"
	}
	t := gs.about.byID[id]
	if t == nil {
		t = newTally(gs.topologyOf(key), terms, 1)
		t.living = living
		gs.about.put(id, t)
		for _, g := range gs.byKey {
			if !t.matches(g.namespace, g.labels, gs.namespaceLabels) {
				continue
			}
			g.about = append(g.about, t)
			for n, c := range g.nodes {
				t.add(n, c.living)
				if !living {
					t.add(n, c.leaving)
				}
			}
		}
	}
	t.used = gs.now
	return t
}

// forget drops the tallies that drop says.
func (gs *groups) forget(drop func(*tally) bool) {
	gone := map[*tally]bool{}
	for id, t := range gs.about.byID {
		if drop(t) {
			gone[t] = true
			gs.about.remove(id)
		}
	}
	if len(gone) == 0 {
		return
	}
	for _, g := range gs.byKey {
		kept := g.about[:0:0]
		for _, t := range g.about {
			if !gone[t] {
				kept = append(kept, t)
			}
		}
		g.about = kept
	}
}

// forgetUnused drops the tallies that no attempt since the given one asked for.
func (gs *groups) forgetUnused(since uint64) {
	gs.forget(func(t *tally) bool { return t.used < since })
}

// namespaceChanged drops what was counted by the labels of namespaces.
func (gs *groups) namespaceChanged() {
	gs.forget(func(t *tally) bool {
		for i := range t.terms {
			if t.terms[i].namespaceSelector != nil {
				return true
			}
		}
		return false
	})
}
