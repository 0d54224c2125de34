package scheduler

import (
	"math"
	"slices"
)

// Reasons of the rules about other pods, as upstream's.
const (
	reasonPodAffinity      = "node(s) didn't match pod affinity rules"
	reasonPodAntiAffinity  = "node(s) didn't match pod anti-affinity rules"
	reasonExisting         = "node(s) didn't satisfy existing pods anti-affinity rules"
	reasonSpread           = "node(s) didn't match pod topology spread constraints"
	reasonSpreadNoTopology = "node(s) didn't match pod topology spread constraints (missing required label)"
)

// domains is what the rules about other pods come to for one pod and the
// present pods: found once for an attempt, then asked for each node. A domain
// is the nodes that share a value of a topology key.
type domains struct {
	existing []*tally   // of rules of pods that are there: where any is, the pod must not be
	anti     []*tally   // of the pod's own
	near     []nearness // one for each affinity term
	spread   []skew     // one for each spread constraint

	pull       []pull // of preferred terms
	softSpread []skew
}

type nearness struct {
	*tally
	// first: no pod matches, and the pod matches its own rules. Any domain will
	// do, or the first of a group of pods that want each other could never be
	// placed.
	first bool
}

type pull struct {
	*tally
	weight int64
}

type skew struct {
	*spreadTerm
	pods    *tally
	own     []int64 // counts by domain of the nodes that count, when not all do; none: no node there does
	least   int64
	domains int
	scale   float64 // of the count, for scores
}

func (s *skew) count(domain int32) int64 {
	if s.own != nil {
		return max(s.own[domain], 0)
	}
	return s.pods.in(domain)
}

// strict tells whether there is a rule that may keep the pod from a node.
func (d *domains) strict() bool {
	return d != nil && (len(d.existing) > 0 || len(d.anti) > 0 || len(d.near) > 0 || len(d.spread) > 0)
}

// domainsFor returns nil when no rule is about the pod.
func (c *cluster) domainsFor(p *podInfo) *domains {
	gs := c.groups
	gs.now++
	var d domains
	about := func(list *[]*tally) func(*tally) {
		return func(t *tally) {
			if t.matches(p.key.Namespace, p.labels, gs.namespaceLabels) {
				*list = append(*list, t)
			}
		}
	}
	if p.profile.without&withoutPods == 0 {
		gs.anti.each(p.labels, about(&d.existing))
		held := func(ts *tallies, weight int64) {
			var list []*tally
			ts.each(p.labels, about(&list))
			for _, t := range list {
				d.pull = append(d.pull, pull{t, weight})
			}
		}
		if !p.profile.IgnorePreferredTermsOfExistingPods || p.terms != nil && len(p.terms.preferred) > 0 {
			if p.profile.hardWeight > 0 {
				held(&gs.near, p.profile.hardWeight)
			}
			held(&gs.soft, 1)
		}
	}
	if p.terms == nil {
		if len(d.existing) == 0 && len(d.pull) == 0 {
			return nil
		}
		return &d
	}
	for i := range p.terms.antiAffinity {
		d.anti = append(d.anti, gs.ask(p.terms.antiAffinity[i].topologyKey, p.terms.antiAffinity[i:i+1], false))
	}
	c.findNear(p, &d)
	for i := range p.terms.preferred {
		t := &p.terms.preferred[i]
		d.pull = append(d.pull, pull{gs.ask(t.topologyKey, []term{t.term}, false), t.weight})
	}
	for i := range p.terms.spread {
		d.spread = append(d.spread, c.skewOf(p, &p.terms.spread[i], p.terms.spread))
	}
	for i := range p.terms.softSpread {
		d.softSpread = append(d.softSpread, c.skewOf(p, &p.terms.softSpread[i], p.terms.softSpread))
	}
	return &d
}

// findNear: a pod counts for an affinity term when it matches all of them.
func (c *cluster) findNear(p *podInfo, d *domains) {
	none, self := true, true
	for i := range p.terms.affinity {
		t := c.groups.ask(p.terms.affinity[i].topologyKey, p.terms.affinity, false)
		none = none && t.total == 0
		self = self && p.terms.affinity[i].matches(p.key.Namespace, p.labels, c.groups.namespaceLabels)
		d.near = append(d.near, nearness{tally: t})
	}
	for i := range d.near {
		d.near[i].first = none && self
	}
}

// skewOf finds the counts for a constraint, one of all.
func (c *cluster) skewOf(p *podInfo, t *spreadTerm, all []spreadTerm) skew {
	s := skew{spreadTerm: t, pods: c.groups.ask(t.topologyKey, []term{t.term}, true)}
	over := s.pods.topology
	if c.allCount(p, t, all) {
		s.domains = len(over.domains)
		s.least = s.pods.least(s.domains)
	} else {
		s.own = slices.Repeat([]int64{none}, len(over.sizes))
		for _, n := range c.list {
			domain := over.of[n.index]
			if domain == none || t.honorAffinity && !matches(p, n) || t.honorTaints && untolerated(p, n) != nil || !t.lenient && !hasAll(n, all) {
				continue
			}
			s.own[domain] = max(s.own[domain], 0) + s.pods.on(n)
		}
		s.least = math.MaxInt64
		for _, n := range s.own {
			if n != none {
				s.least = min(s.least, n)
				s.domains++
			}
		}
	}
	if s.domains < t.minDomains {
		s.least = 0
	}
	s.scale = math.Log(float64(s.domains + 2))
	return s
}

// allCount tells whether every node that has the key counts for a constraint.
// Then the tally is all there is to know.
func (c *cluster) allCount(p *podInfo, t *spreadTerm, all []spreadTerm) bool {
	if t.honorAffinity && (p.required != nil || p.bound != "") || t.honorTaints && c.hard > 0 {
		return false
	}
	if !t.lenient {
		for i := range all {
			if key := all[i].topologyKey; key != t.topologyKey && c.topologyOf(key).nodes < len(c.list) {
				return false
			}
		}
	}
	return true
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
func (d *domains) refuses(n *nodeInfo) string { return d.refusesWithout(n, nil) }

// refusesWithout is refuses as it were without some pods, of which less tells
// how many a tally counts in a domain of the node.
func (d *domains) refusesWithout(n *nodeInfo, less func(t *tally) int64) string {
	if d == nil {
		return ""
	}
	for i := range d.spread {
		s := &d.spread[i]
		domain := s.pods.topology.of[n.index]
		if domain == none {
			return reasonSpreadNoTopology
		}
		count := s.count(domain) - minus(less, s.pods)
		least := min(s.least, count)
		if s.self {
			count++
		}
		if count-least > int64(s.maxSkew) {
			return reasonSpread
		}
	}
	for i := range d.near {
		near := &d.near[i]
		domain := near.topology.of[n.index]
		if domain == none || !near.first && near.in(domain) <= minus(less, near.tally) {
			return reasonPodAffinity
		}
	}
	for _, t := range d.anti {
		if domain := t.topology.of[n.index]; domain != none && t.in(domain) > minus(less, t) {
			return reasonPodAntiAffinity
		}
	}
	for _, t := range d.existing {
		if domain := t.topology.of[n.index]; domain != none && t.in(domain) > minus(less, t) {
			return reasonExisting
		}
	}
	return ""
}

// minus is less(t), or 0: most ask without.
func minus(less func(t *tally) int64, t *tally) int64 {
	if less == nil {
		return 0
	}
	return less(t)
}

// attraction is the sum of the preferred terms for a node.
func (d *domains) attraction(n *nodeInfo) int64 {
	var sum int64
	for i := range d.pull {
		p := &d.pull[i]
		if domain := p.topology.of[n.index]; domain != none {
			sum += p.weight * p.in(domain)
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
		domain := s.pods.topology.of[n.index]
		switch {
		case domain != none:
			sum += float64(s.count(domain))*s.scale + float64(s.maxSkew-1)
		case !s.lenient:
			return -1
		}
	}
	return int64(sum * 1000)
}
