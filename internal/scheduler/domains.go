package scheduler

import (
	"math"

	"k8s.io/apimachinery/pkg/labels"
)

// Reasons of the rules about other pods, as upstream's.
const (
	reasonPodAffinity      = "node(s) didn't match pod affinity rules"
	reasonPodAntiAffinity  = "node(s) didn't match pod anti-affinity rules"
	reasonExisting         = "node(s) didn't satisfy existing pods anti-affinity rules"
	reasonSpread           = "node(s) didn't match pod topology spread constraints"
	reasonSpreadNoTopology = "node(s) didn't match pod topology spread constraints (missing required label)"
)

// closed are domains, nodes that share a value of a topology key, that a pod
// must not be in: by key and value.
type closed map[string]map[string]bool

func (c closed) add(key, value string) {
	if c[key] == nil {
		c[key] = map[string]bool{}
	}
	c[key][value] = true
}

func (c closed) has(l labels.Set) bool {
	for key, values := range c {
		if value, ok := l[key]; ok && values[value] {
			return true
		}
	}
	return false
}

// domains is what the rules about other pods come to for one pod and the
// present pods: worked out once for an attempt, then asked for each node.
type domains struct {
	existing closed     // by rules of pods that are there
	anti     closed     // by the pod's own
	near     []nearness // one for each affinity term
	spread   []skew     // one for each spread constraint

	pull       map[string]map[string]int64 // of preferred terms, by key and value
	softSpread []skew
}

// strict tells whether there is a rule that may keep the pod from a node.
func (d *domains) strict() bool {
	return d != nil && (len(d.existing) > 0 || len(d.anti) > 0 || len(d.near) > 0 || len(d.spread) > 0)
}

type nearness struct {
	key  string
	open map[string]bool // by value
	// first: no pod matches, and the pod matches its own rule. Any domain will
	// do, or the first of a group of pods that want each other could never be
	// placed.
	first bool
}

type skew struct {
	*spreadTerm
	counts map[string]int // matching pods by value, of the nodes that count
	least  int
}

// domainsFor returns nil when no rule is about the pod, which costs nothing in
// a cluster without rules.
func (c *cluster) domainsFor(p *podInfo) *domains {
	d := domains{existing: closed{}, anti: closed{}}
	for key := range c.shy {
		q := c.pods[key]
		if q.node.node == nil {
			continue
		}
		for i := range q.info.terms.antiAffinity {
			t := &q.info.terms.antiAffinity[i]
			if value, ok := q.node.node.Labels[t.topologyKey]; ok && t.matches(p, c.namespaceLabels) {
				d.existing.add(t.topologyKey, value)
			}
		}
	}
	if p.terms == nil {
		if len(d.existing) == 0 {
			return nil
		}
		return &d
	}
	for i := range p.terms.antiAffinity {
		t := &p.terms.antiAffinity[i]
		c.each(t, func(value string) { d.anti.add(t.topologyKey, value) })
	}
	none := true
	for i := range p.terms.affinity {
		t := &p.terms.affinity[i]
		n := nearness{key: t.topologyKey, open: map[string]bool{}}
		c.each(t, func(value string) { n.open[value] = true })
		none = none && len(n.open) == 0
		d.near = append(d.near, n)
	}
	if none {
		self := true
		for i := range p.terms.affinity {
			self = self && p.terms.affinity[i].matches(p, c.namespaceLabels)
		}
		for i := range d.near {
			d.near[i].first = self
		}
	}
	for i := range p.terms.spread {
		d.spread = append(d.spread, c.skewOf(p, &p.terms.spread[i], p.terms.spread))
	}
	for i := range p.terms.softSpread {
		d.softSpread = append(d.softSpread, c.skewOf(p, &p.terms.softSpread[i], p.terms.softSpread))
	}
	for i := range p.terms.preferred {
		t := &p.terms.preferred[i]
		if d.pull == nil {
			d.pull = map[string]map[string]int64{}
		}
		if d.pull[t.topologyKey] == nil {
			d.pull[t.topologyKey] = map[string]int64{}
		}
		c.each(&t.term, func(value string) { d.pull[t.topologyKey][value] += t.weight })
	}
	return &d
}

// each calls f with the topology value of every pod that a term matches.
func (c *cluster) each(t *term, f func(value string)) {
	for _, q := range c.pods {
		if q.node.node == nil {
			continue
		}
		if value, ok := q.node.node.Labels[t.topologyKey]; ok && t.matches(q.info, c.namespaceLabels) {
			f(value)
		}
	}
}

// skewOf counts the pods that a constraint, one of all, is about in each
// domain.
func (c *cluster) skewOf(p *podInfo, t *spreadTerm, all []spreadTerm) skew {
	s := skew{spreadTerm: t, counts: map[string]int{}}
	for _, n := range c.list {
		value, ok := n.node.Labels[t.topologyKey]
		if !ok || t.honorAffinity && !matches(p, n) || t.honorTaints && untolerated(p, n) != nil || !hasAll(n, all) {
			continue
		}
		count := s.counts[value]
		for _, q := range n.pods {
			if q.key.Namespace == p.key.Namespace && !q.leaving && t.selector.Matches(q.labels) {
				count++
			}
		}
		s.counts[value] = count
	}
	s.least = math.MaxInt
	for _, n := range s.counts {
		s.least = min(s.least, n)
	}
	if len(s.counts) < t.minDomains {
		s.least = 0
	}
	return s
}

// hasAll tells whether a node has the topology keys of all constraints; one
// that has not does not count for any.
func hasAll(n *nodeInfo, spread []spreadTerm) bool {
	for i := range spread {
		if _, ok := n.node.Labels[spread[i].topologyKey]; !ok {
			return false
		}
	}
	return true
}

// refuses returns why the rules keep the pod from a node, or "".
func (d *domains) refuses(n *nodeInfo) string {
	if d == nil {
		return ""
	}
	l := labels.Set(n.node.Labels)
	for i := range d.spread {
		s := &d.spread[i]
		value, ok := l[s.topologyKey]
		if !ok {
			return reasonSpreadNoTopology
		}
		count := s.counts[value]
		if s.self {
			count++
		}
		if count-s.least > s.maxSkew {
			return reasonSpread
		}
	}
	for i := range d.near {
		near := &d.near[i]
		value, ok := l[near.key]
		if !ok || !near.first && !near.open[value] {
			return reasonPodAffinity
		}
	}
	if d.anti.has(l) {
		return reasonPodAntiAffinity
	}
	if d.existing.has(l) {
		return reasonExisting
	}
	return ""
}

// attraction is the sum of the preferred terms for a node.
func (d *domains) attraction(n *nodeInfo) int64 {
	var sum int64
	for key, values := range d.pull {
		if value, ok := n.node.Labels[key]; ok {
			sum += values[value]
		}
	}
	return sum
}

// crowding is how many pods that the soft constraints are about share a
// domain with a node; -1 when the node is in none. Domains of which there are
// many weigh more, as upstream has it, for each holds few pods.
func (d *domains) crowding(n *nodeInfo) int64 {
	var sum float64
	for i := range d.softSpread {
		s := &d.softSpread[i]
		value, ok := n.node.Labels[s.topologyKey]
		if !ok {
			return -1
		}
		sum += float64(s.counts[value])*math.Log(float64(len(s.counts)+2)) + float64(s.maxSkew-1)
	}
	return int64(sum * 1000)
}
