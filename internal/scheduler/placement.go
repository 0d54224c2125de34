package scheduler

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/scheduler/devices"
	"github.com/setpoint-project/setpoint/internal/scheduler/volumes"
)

// placement chooses nodes. It remembers where it stopped looking, so that in
// a large cluster all nodes get their turn.
type placement struct {
	cluster    *cluster
	rand       *rand.Rand
	next       int         // where to look first
	candidates []candidate // reused
	domains    *domains    // of the pod that was last chosen for
	// vetoed are the nodes that extenders refused to that pod, with why.
	vetoed  map[string]string
	volumes *volumes.Catalog // nil: claims are not looked at
	devices *devices.Catalog // nil: ResourceClaims are not looked at
}

// leastSample is how many nodes are looked for at least.
const leastSample = 100

type candidate struct {
	node  *nodeInfo
	score int64
}

// enough is how many nodes that fit are scored. Small clusters are searched
// whole; of large ones a share that shrinks with their size, as upstream does:
// https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/
func enough(nodes int) int {
	if nodes <= leastSample {
		return nodes
	}
	percent := max(50-nodes/125, 5)
	return max(nodes*percent/100, leastSample)
}

// choose returns the best node for a pod, or nil when none fits.
func (pl *placement) choose(p *podInfo) *nodeInfo {
	pl.look(p)
	if p.refusal() != "" {
		pl.candidates = pl.candidates[:0]
		return nil
	}
	if p.bound != "" && p.profile.without&withoutAffinity == 0 {
		n := pl.cluster.nodes[p.bound]
		if n != nil && n.node != nil && pl.fits(p, n) {
			return pl.only(n)
		}
		return nil
	}
	if n := pl.cluster.nodes[pl.cluster.nominated.node[p.key]]; n != nil && n.node != nil && pl.fits(p, n) {
		return pl.only(n) // room was made for it there
	}
	nodes := pl.cluster.list
	want := pl.enough(p)
	pl.candidates = pl.candidates[:0]
	looked := 0
	at := pl.next
	alike := pl.cluster.equivalenceOf(p)
	for ; looked < len(nodes) && len(pl.candidates) < want; looked++ {
		if at >= len(nodes) {
			at = 0
		}
		if score, ok := pl.cluster.ask(alike, p, at); ok && pl.allows(p, nodes[at]) {
			pl.candidates = append(pl.candidates, candidate{node: nodes[at], score: score})
		}
		at++
	}
	pl.next = at
	if len(pl.candidates) > 1 {
		pl.cluster.addPreferences(p, pl.candidates, pl.domains)
	}
	return pl.best()
}

// look finds what is the same for all nodes in an attempt to place p.
func (pl *placement) look(p *podInfo) {
	p.selected = pl.cluster.nodeSetOf(p)
	pl.domains = pl.cluster.domainsFor(p)
	clear(pl.vetoed)
	pl.lookAtVolumes(p)
	pl.lookAtDevices(p)
}

func (pl *placement) only(n *nodeInfo) *nodeInfo {
	pl.candidates = append(pl.candidates[:0], candidate{node: n})
	return n
}

func (pl *placement) enough(p *podInfo) int {
	nodes := len(pl.cluster.list)
	if share := p.profile.Sample; share > 0 {
		return max(min(nodes, leastSample), nodes*min(share, 100)/100)
	}
	return enough(nodes)
}

// fits is whether a node takes p now, with all rules.
func (pl *placement) fits(p *podInfo, n *nodeInfo) bool { return fits(p, n) && pl.allows(p, n) }

// allows is whether the rules let p on a node that it fits on.
func (pl *placement) allows(p *podInfo, n *nodeInfo) bool {
	if pl.domains != nil && pl.domains.refuses(n) != "" {
		return false
	}
	if len(pl.cluster.nominated.on) > 0 {
		if room := pl.cluster.nominated.with(p, n); room != n && !fits(p, room) {
			return false
		}
	}
	return p.devices == nil || p.devices.Refuses(n.node) == "" // last, for it is the dearest
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
// required affinity to the node's name; looking at the others is in vain. alone
// tells that the pod asks for nothing else of it.
func boundTo(pod *corev1.Pod) (name string, alone bool) {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return "", false
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) != 1 {
		return "", false
	}
	term := &required.NodeSelectorTerms[0]
	for _, field := range term.MatchFields {
		if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
			return field.Values[0], len(term.MatchFields) == 1 && len(term.MatchExpressions) == 0 && len(pod.Spec.NodeSelector) == 0
		}
	}
	return "", false
}
