package scheduler

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
)

// placement chooses nodes. It remembers where it stopped looking, so that in
// a large cluster all nodes get their turn.
type placement struct {
	cluster    *cluster
	rand       *rand.Rand
	next       int         // where to look first
	candidates []candidate // reused
	domains    *domains    // of the pod that was last chosen for
}

type candidate struct {
	node  *nodeInfo
	score int64
}

// enough is how many nodes that fit are scored. Small clusters are searched
// whole; of large ones a share that shrinks with their size, as upstream does:
// https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/
func enough(nodes int) int {
	const least = 100
	if nodes <= least {
		return nodes
	}
	percent := max(50-nodes/125, 5)
	return max(nodes*percent/100, least)
}

// choose returns the best node for a pod, or nil when none fits.
func (pl *placement) choose(p *podInfo) *nodeInfo {
	pl.domains = pl.cluster.domainsFor(p)
	if name := boundTo(p); name != "" {
		n := pl.cluster.nodes[name]
		if n != nil && n.node != nil && fits(p, n) && pl.domains.refuses(n) == "" {
			return n
		}
		return nil
	}
	nodes := pl.cluster.list
	want := enough(len(nodes))
	pl.candidates = pl.candidates[:0]
	looked := 0
	at := pl.next
	for ; looked < len(nodes) && len(pl.candidates) < want; looked++ {
		if at >= len(nodes) {
			at = 0
		}
		if n := nodes[at]; fits(p, n) && pl.domains.refuses(n) == "" {
			pl.candidates = append(pl.candidates, candidate{node: n, score: resourceScore(p, n)})
		}
		at++
	}
	pl.next = at
	if len(pl.candidates) > 1 {
		addPreferences(p, pl.candidates, pl.cluster.soft > 0, pl.domains)
	}
	return pl.best()
}

// best picks one of the candidates with the highest score, at random.
func (pl *placement) best() *nodeInfo {
	var best *nodeInfo
	var score int64
	ties := 0
	for _, c := range pl.candidates {
		switch {
		case best == nil || c.score > score:
			best, score, ties = c.node, c.score, 1
		case c.score == score:
			if ties++; pl.rand.IntN(ties) == 0 {
				best = c.node
			}
		}
	}
	return best
}

// boundTo returns the one node that a pod of a daemon set asks for, by a
// required affinity to the node's name alone; looking at the others is in
// vain.
func boundTo(p *podInfo) string {
	if p.required == nil || p.pod.Spec.Affinity == nil || p.pod.Spec.Affinity.NodeAffinity == nil {
		return ""
	}
	required := p.pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, field := range required.NodeSelectorTerms[0].MatchFields {
		if field.Key == "metadata.name" && field.Operator == "In" && len(field.Values) == 1 {
			return field.Values[0]
		}
	}
	return ""
}

// diagnose says why no node fits, with the number of nodes for each reason,
// after choose has found none.
func (pl *placement) diagnose(p *podInfo) string {
	nodes := pl.cluster.list
	if len(nodes) == 0 {
		return "no nodes available to schedule pods"
	}
	counts := map[string]int{}
	for _, n := range nodes {
		reasons := explain(p, n)
		if len(reasons) == 0 {
			reasons = []string{pl.domains.refuses(n)}
		}
		for _, reason := range reasons {
			counts[reason]++
		}
	}
	parts := make([]string, 0, len(counts))
	for reason, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	sort.Strings(parts)
	return fmt.Sprintf("0/%d nodes are available: %s.", len(nodes), strings.Join(parts, ", "))
}
