package scheduler

import (
	"cmp"
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Preemption: where no node has room for a pod, those that are less urgent may
// have to leave one.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#preemption
const (
	reasonNotHelpful = "Preemption is not helpful for scheduling"
	reasonNoVictims  = "No preemption victims found for incoming pod"
)

// eviction is a node, and the pods that have to leave it.
type eviction struct {
	node    *nodeInfo
	victims []*podInfo // the most urgent first
	broken  int        // how many of them a budget protects
	eldest  time.Time  // when the first of the most urgent started
}

// eligible says why a pod may not make others leave, or "".
func (pl *placement) eligible(p *podInfo) string {
	if p.placid {
		return "not eligible due to preemptionPolicy=Never."
	}
	if n := pl.cluster.nodes[pl.cluster.nominated.node[p.key]]; n != nil {
		for _, q := range n.pods {
			if q.leaving && q.priority < p.priority {
				return "not eligible due to a terminating pod on the nominated node."
			}
		}
	}
	return ""
}

// preempt finds the node where the fewest and least urgent pods have to leave
// for p, after choose has found none; nil and why when there is none.
func (pl *placement) preempt(p *podInfo, budgets []*policyv1.PodDisruptionBudget) (*eviction, string) {
	list, why := pl.evictions(p, budgets)
	return bestOf(list), why
}

// bestOf is the eviction that hurts the least; nil when there is none.
func bestOf(list []*eviction) (best *eviction) {
	for _, e := range list {
		if best == nil || e.better(best) {
			best = e
		}
	}
	return best
}

// evictions finds the nodes where pods may leave for p, or why there are none.
func (pl *placement) evictions(p *podInfo, budgets []*policyv1.PodDisruptionBudget) ([]*eviction, string) {
	if why := pl.eligible(p); why != "" {
		return nil, why
	}
	nodes := pl.cluster.list
	if len(nodes) == 0 {
		return nil, ""
	}
	if p.refusal() != "" {
		return nil, countReasons(len(nodes), map[string]int{reasonNotHelpful: len(nodes)})
	}
	var list []*eviction
	counts := map[string]int{}
	// A tenth of the nodes, and a hundred at least, are enough to choose from,
	// or what the profile says.
	want := max(len(nodes)*p.profile.percentage/100, p.profile.absolute)
	if !pl.cluster.anyBelow(p.priority) {
		want = 0
	}
	at := pl.rand.IntN(len(nodes))
	for range nodes {
		n := nodes[at]
		if at++; at == len(nodes) {
			at = 0
		}
		if !may(p, n) || !pl.domains.curable(n) || p.devices.Refuses(n.node) != "" {
			counts[reasonNotHelpful]++
			continue
		}
		var e *eviction
		if want > 0 {
			e = pl.evictionOn(p, n, budgets)
		}
		if e == nil {
			counts[reasonNoVictims]++
			continue
		}
		list = append(list, e)
		if want--; want == 0 {
			break
		}
	}
	if len(list) > 0 {
		return list, ""
	}
	return nil, countReasons(len(nodes), counts)
}

// anyBelow tells whether any pod is less urgent.
func (c *cluster) anyBelow(priority int32) bool {
	for p := range c.priorities {
		if p < priority {
			return true
		}
	}
	return false
}

// curable tells whether it is the pods of a node, and not the node itself or
// pods that are missing, for which rules refuse it.
func (d *domains) curable(n *nodeInfo) bool {
	if d == nil {
		return true
	}
	reason := d.refuses(n)
	return reason != reasonPodAffinity && reason != reasonSpreadNoTopology
}

// evictionOn finds which pods of a node have to leave for p: all that are less
// urgent, without those that may stay after all, the most urgent first, and
// before these those that a budget protects. nil when p does not fit even so.
func (pl *placement) evictionOn(p *podInfo, n *nodeInfo, budgets []*policyv1.PodDisruptionBudget) *eviction {
	var out []*podInfo
	for _, q := range n.pods {
		if q.priority < p.priority {
			out = append(out, q)
		}
	}
	if len(out) == 0 {
		return nil
	}
	room := pl.cluster.nominated.with(p, n)
	if room == n {
		room = n.clone()
	}
	away := map[*podInfo]bool{}
	for _, q := range out {
		room.remove(q.key)
		away[q] = true
	}
	if !pl.fitsWithout(p, room, away) {
		return nil
	}
	started := map[*podInfo]time.Time{}
	for _, q := range out {
		started[q] = pl.cluster.started(q)
	}
	// The first are to stay rather.
	slices.SortFunc(out, func(a, b *podInfo) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), started[a].Compare(started[b]), cmp.Compare(a.key.String(), b.key.String()))
	})
	guarded := guardedBy(out, budgets)
	e := &eviction{node: n}
	for _, protected := range []bool{true, false} {
		for _, q := range out {
			if guarded[q] != protected {
				continue
			}
			room.add(q)
			delete(away, q)
			if pl.fitsWithout(p, room, away) {
				continue
			}
			room.remove(q.key)
			away[q] = true
			e.victims = append(e.victims, q)
			if protected {
				e.broken++
			}
		}
	}
	if len(e.victims) == 0 {
		return nil // it fits: it was not the node that refused
	}
	slices.SortFunc(e.victims, func(a, b *podInfo) int { return slices.Index(out, a) - slices.Index(out, b) })
	e.eldest = started[e.victims[0]]
	return e
}

// fitsWithout is whether p fits in room, which is its node without some pods.
func (pl *placement) fitsWithout(p *podInfo, room *nodeInfo, away map[*podInfo]bool) bool {
	if !fits(p, room) {
		return false
	}
	if pl.domains == nil {
		return true
	}
	return pl.domains.refusesWithout(room, func(t *tally) (n int64) {
		for q := range away {
			n += t.counted(q, pl.cluster.groups.namespaceLabels)
		}
		return n
	}) == ""
}

// counted is how often a tally counts a pod that is on a node.
func (t *tally) counted(q *podInfo, namespaceLabels func(string) labels.Set) (n int64) {
	if !t.holders {
		if !(t.living && q.leaving) && t.matches(q.key.Namespace, q.labels, namespaceLabels) {
			n = 1
		}
		return n
	}
	if q.terms != nil {
		for i := range q.terms.antiAffinity {
			if q.terms.antiAffinity[i].id == t.terms[0].id {
				n++
			}
		}
	}
	return n
}

// guardedBy tells which of pods that all leave, the most urgent first, would
// break a budget.
func guardedBy(pods []*podInfo, budgets []*policyv1.PodDisruptionBudget) map[*podInfo]bool {
	if len(budgets) == 0 {
		return nil
	}
	guarded := map[*podInfo]bool{}
	left := map[*policyv1.PodDisruptionBudget]int32{}
	for _, b := range budgets {
		left[b] = b.Status.DisruptionsAllowed
	}
	for _, q := range pods {
		for _, b := range budgets {
			if b.Namespace != q.key.Namespace || len(q.labels) == 0 {
				continue
			}
			selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err != nil || selector.Empty() || !selector.Matches(q.labels) {
				continue
			}
			if _, gone := b.Status.DisruptedPods[q.key.Name]; gone {
				continue // it is counted already
			}
			if left[b]--; left[b] < 0 {
				guarded[q] = true
			}
		}
	}
	return guarded
}

// better: fewer broken budgets, then victims that are less urgent, then fewer,
// then younger.
func (e *eviction) better(than *eviction) bool {
	return cmp.Or(
		cmp.Compare(e.broken, than.broken),
		cmp.Compare(e.highest(), than.highest()),
		cmp.Compare(e.sum(), than.sum()),
		cmp.Compare(len(e.victims), len(than.victims)),
		than.eldest.Compare(e.eldest),
	) < 0
}

func (e *eviction) highest() int32 { return e.victims[0].priority }

// sum of the priorities, each moved above 0 so that more pods are never less.
func (e *eviction) sum() (sum int64) {
	for _, q := range e.victims {
		sum += int64(q.priority) + 1<<31
	}
	return sum
}
