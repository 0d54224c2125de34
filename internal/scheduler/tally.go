package scheduler

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A tally counts pods by the domain of a topology that their nodes are in: the
// pods that match terms, or those that hold a term themselves. It is
// made at the first question, from the groups of pods, and from then on
// changes with each pod that comes or goes, so that no attempt to place a pod
// looks at the others.
type tally struct {
	topology *topology
	terms    []term // that a pod matches, all of them
	living   bool   // pods that are being deleted do not count
	// holders are counted, not those that match; see groups.hold.
	holders bool
	weight  int64 // of each pod

	counts  []int64 // by domain; what is beyond is 0
	total   int64
	busy    int     // how many domains have a count that is not 0
	levels  []int   // of domains by their count, for least; only of the living
	perNode []int64 // by nodeInfo.index; what is beyond is 0; only of the living
	used    uint64  // the attempt that last asked
}

func newTally(over *topology, terms []term, weight int64) *tally {
	return &tally{topology: over, terms: terms, weight: weight}
}

// add counts n pods more on a node that exists.
func (t *tally) add(node *nodeInfo, n int64) {
	domain := t.topology.of[node.index]
	if domain == none || n == 0 {
		return
	}
	n *= t.weight
	t.total += n
	before := t.in(domain)
	if t.counts = grown(t.counts, int(domain)); before == 0 {
		t.busy++
	}
	if t.counts[domain] += n; t.counts[domain] == 0 {
		t.busy--
	}
	if t.living {
		t.perNode = grown(t.perNode, node.index)
		t.perNode[node.index] += n
		t.level(before, -1)
		t.level(before+n, 1)
	}
}

// grown returns list with an element at i.
func grown(list []int64, i int) []int64 {
	if i < len(list) {
		return list
	}
	return append(list, make([]int64, i+1-len(list))...)
}

// in is the count in a domain.
func (t *tally) in(domain int32) int64 {
	if int(domain) < len(t.counts) {
		return t.counts[domain]
	}
	return 0
}

// on is the count on a node; the tally is of the living.
func (t *tally) on(n *nodeInfo) int64 {
	if n.index < len(t.perNode) {
		return t.perNode[n.index]
	}
	return 0
}

func (t *tally) level(count int64, sign int) {
	if count <= 0 {
		return
	}
	for int64(len(t.levels)) <= count {
		t.levels = append(t.levels, 0)
	}
	t.levels[count] += sign
}

// least is the smallest count of any of so many domains.
func (t *tally) least(domains int) int64 {
	if t.busy < domains {
		return 0
	}
	for count, domains := range t.levels {
		if domains > 0 {
			return int64(count)
		}
	}
	return 0
}

// matches tells whether a pod counts.
func (t *tally) matches(namespace string, set labels.Set, namespaceLabels func(string) labels.Set) bool {
	for i := range t.terms {
		if !t.terms[i].matches(namespace, set, namespaceLabels) {
			return false
		}
	}
	return true
}

// pair is a label.
type pair struct{ key, value string }

// needs is a label that every pod has that a selector matches; the zero pair
// when there is no such label.
func needs(s labels.Selector) pair {
	requirements, selectable := s.Requirements()
	if !selectable {
		return pair{}
	}
	for i := range requirements {
		switch requirements[i].Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			if values := requirements[i].ValuesUnsorted(); len(values) == 1 {
				return pair{requirements[i].Key(), values[0]}
			}
		}
	}
	return pair{}
}

// tallies are found by id, and by the labels of a pod.
type tallies struct {
	byID    map[string]*tally
	byLabel map[pair]map[string]*tally // by the label that the first term needs, by id
}

func newTallies() tallies {
	return tallies{byID: map[string]*tally{}, byLabel: map[pair]map[string]*tally{}}
}

func (ts *tallies) put(id string, t *tally) {
	ts.byID[id] = t
	p := needs(t.terms[0].selector)
	if ts.byLabel[p] == nil {
		ts.byLabel[p] = map[string]*tally{}
	}
	ts.byLabel[p][id] = t
}

func (ts *tallies) remove(id string) {
	t := ts.byID[id]
	delete(ts.byID, id)
	p := needs(t.terms[0].selector)
	if delete(ts.byLabel[p], id); len(ts.byLabel[p]) == 0 {
		delete(ts.byLabel, p)
	}
}

// each calls f with the tallies whose terms a pod with these labels may match.
func (ts *tallies) each(set labels.Set, f func(*tally)) {
	if len(ts.byID) == 0 {
		return
	}
	for _, t := range ts.byLabel[pair{}] {
		f(t)
	}
	for key, value := range set {
		for _, t := range ts.byLabel[pair{key, value}] {
			f(t)
		}
	}
}
