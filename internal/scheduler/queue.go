package scheduler

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// After a write that failed a pod waits this long, doubled each time.
	firstBackoff = time.Second
	maxBackoff   = 10 * time.Second
	// A pod that fits nowhere is tried again after this time even if nothing
	// changed that could help, as a net under the wake-ups.
	unschedulableFor = 5 * time.Minute
)

// place says which part of the queue a pod is in.
type place int

const (
	nowhere place = iota
	active
	backingOff
	unschedulable
)

// queue holds the pods that are to be placed. It is owned by the scheduler's
// goroutine.
//
//	add --> active --pop--> (placed) --written--> gone
//	          ^                |   \
//	          | due            |    write failed
//	          +-- backing off <-----+
//	          |                | fits nowhere
//	          +- unschedulable <
//	   a node changed so that it fits there, or 5 minutes; where rules about
//	   other pods are in the way, a pod or node that they are about, and a back-off;
//	   where volumes or devices are, a change of theirs
type queue struct {
	pods    map[types.NamespacedName]*podInfo
	active  activeHeap
	timed   timedHeap // backing off and unschedulable
	waiting shapes    // the unschedulable ones that a node could take
	// on are the unschedulable ones by what a change of may help.
	on   map[string]map[types.NamespacedName]bool
	came uint64 // how many pods have come so far
}

func newQueue() *queue {
	return &queue{pods: map[types.NamespacedName]*podInfo{}, waiting: newShapes(), on: map[string]map[types.NamespacedName]bool{}}
}

// add puts a pod into the active part, unless it is in the queue already: then
// it takes over the new revision, and is tried at once if what placing looks
// at has changed.
func (q *queue) add(p *podInfo, now time.Time) {
	had, ok := q.pods[p.key]
	if !ok {
		q.came++
		p.queued = queueState{added: now, number: q.came}
		q.pods[p.key] = p
		q.enter(p, active)
		return
	}
	same := had.uid == p.uid && had.generation == p.generation && had.group == p.group && sameClaims(had.pod, p.pod)
	state := had.queued
	q.leave(had)
	if !same {
		q.came++
		state = queueState{where: active, added: now, number: q.came}
	}
	p.queued = state
	q.pods[p.key] = p
	q.enter(p, state.where)
}

// remove takes a pod out, wherever it is, and returns it, or nil.
func (q *queue) remove(key types.NamespacedName) *podInfo {
	p, ok := q.pods[key]
	if !ok {
		return nil
	}
	q.leave(p)
	delete(q.pods, key)
	return p
}

// pop takes the first active pod out, or returns nil. It comes back by retry
// or park.
func (q *queue) pop() *podInfo {
	if len(q.active) == 0 {
		return nil
	}
	return q.remove(q.active[0].key)
}

// retry puts a pod back after a failed write.
func (q *queue) retry(p *podInfo, now time.Time) {
	p.queued.attempts++
	p.queued.due = now.Add(backoff(p.queued.attempts))
	q.put(p, backingOff)
}

// refused says what kept a pod from all nodes.
type refused struct {
	ruled   bool     // more than the nodes' room: rules about other pods, volumes, devices
	blocked bool     // no node was looked at: only a change of on can help
	on      []string // what a change of may help, besides nodes and pods
}

// park puts a pod back that fits nowhere.
func (q *queue) park(p *podInfo, by refused, now time.Time) {
	p.queued.due = now.Add(unschedulableFor)
	p.queued.parked, p.queued.refused = now, by
	if by.ruled {
		p.queued.attempts++
	}
	p.queued.wokenBy = ""
	q.put(p, unschedulable)
}

func (q *queue) put(p *podInfo, where place) {
	if had, ok := q.pods[p.key]; ok {
		q.leave(had)
	}
	q.pods[p.key] = p
	q.enter(p, where)
}

func backoff(attempts int) time.Duration {
	d := firstBackoff
	for i := 1; i < attempts && d < maxBackoff; i++ {
		d *= 2
	}
	return min(d, maxBackoff)
}

// release makes the pods active whose time has come.
func (q *queue) release(now time.Time) {
	for len(q.timed) > 0 && !q.timed[0].queued.due.After(now) {
		p := q.timed[0]
		q.leave(p)
		q.enter(p, active)
	}
}

// nextDue is when release has something to do; false when never.
func (q *queue) nextDue() (time.Time, bool) {
	if len(q.timed) == 0 {
		return time.Time{}, false
	}
	return q.timed[0].queued.due, true
}

// wake makes those unschedulable pods active that fit on a node together,
// first come first. It looks at the one node only, and at one pod of each
// shape, so that a change costs the same in a cluster of any size; and it takes
// no more pods than there is room for, so that a place that comes free in front
// of 10,000 pods wakes one of them. Those that rules about other pods keep out
// are all tried again after a back-off, for the node alone does not tell.
// Room that is kept for a nominated pod is none for others: a pod that was woken
// for it would be refused, and the room offered again at once, for ever. Those
// it is kept for are looked at one by one, and first: to another of their shape
// the node seems full.
func (q *queue) wake(n *nodeInfo, kept *nominations) {
	if n.node == nil {
		return
	}
	takes := func(p *podInfo, n *nodeInfo) bool {
		if !fits(p, n) {
			return false
		}
		room := kept.with(p, n)
		return room == n || fits(p, room)
	}
	room := n
	for _, key := range kept.keys(n.name) {
		p := q.pods[key]
		if p == nil || p.queued.where != unschedulable || p.queued.blocked || !takes(p, room) {
			continue
		}
		q.leave(p)
		if p.queued.ruled {
			p.queued.due = p.queued.parked.Add(backoff(p.queued.attempts))
			q.enter(p, backingOff)
			continue
		}
		if room == n {
			room = n.clone()
		}
		room.add(p)
		p.queued.wokenBy = n.name
		q.enter(p, active)
	}
	var fit []*shape
	for _, s := range q.waiting.all {
		if !takes(s.sample(), n) {
			continue
		}
		if s.ruled {
			q.later(s)
		} else {
			fit = append(fit, s)
		}
	}
	for len(fit) > 0 {
		first := 0
		for i := range fit {
			if before(fit[i].sample(), fit[first].sample()) {
				first = i
			}
		}
		p := fit[first].sample()
		if !takes(p, room) {
			fit = append(fit[:first], fit[first+1:]...)
			continue
		}
		if room == n {
			room = n.clone()
		}
		room.add(p)
		last := len(fit[first].pods) == 1
		q.leave(p)
		p.queued.wokenBy = n.name
		q.enter(p, active)
		if last {
			fit = append(fit[:first], fit[first+1:]...)
		}
	}
}

// wakeRuled lets those pods be tried again that rules about other pods keep
// out, where helps says that something changed for one like them.
func (q *queue) wakeRuled(helps func(p *podInfo) bool) {
	for _, s := range q.waiting.ruled {
		if helps(s.sample()) {
			q.later(s)
		}
	}
}

// later lets the pods of a shape be tried again after a back-off.
func (q *queue) later(s *shape) {
	for len(s.pods) > 0 {
		p := s.sample()
		q.leave(p)
		p.queued.due = p.queued.parked.Add(backoff(p.queued.attempts))
		q.enter(p, backingOff)
	}
}

// helped lets the pods be tried again that a change of what may help: at once
// those that nothing else keeps, after a back-off the others.
func (q *queue) helped(what string) {
	for _, key := range slices.Collect(maps.Keys(q.on[what])) {
		p := q.pods[key]
		q.leave(p)
		where := active
		if !p.queued.blocked {
			where, p.queued.due = backingOff, p.queued.parked.Add(backoff(p.queued.attempts))
		}
		q.enter(p, where)
	}
}

func (q *queue) enter(p *podInfo, where place) {
	p.queued.where = where
	switch where {
	case active:
		heap.Push(&q.active, p)
	case backingOff:
		heap.Push(&q.timed, p)
	case unschedulable:
		heap.Push(&q.timed, p)
		if !p.queued.blocked {
			q.waiting.add(p)
		}
		for _, what := range p.queued.on {
			if q.on[what] == nil {
				q.on[what] = map[types.NamespacedName]bool{}
			}
			q.on[what][p.key] = true
		}
	}
}

func (q *queue) leave(p *podInfo) {
	switch p.queued.where {
	case active:
		heap.Remove(&q.active, p.queued.index)
	case backingOff:
		heap.Remove(&q.timed, p.queued.index)
	case unschedulable:
		heap.Remove(&q.timed, p.queued.index)
		if !p.queued.blocked {
			q.waiting.remove(p)
		}
		for _, what := range p.queued.on {
			if delete(q.on[what], p.key); len(q.on[what]) == 0 {
				delete(q.on, what)
			}
		}
	}
	p.queued.where = nowhere
}

// before is the order of the queue: priority, then who came first.
func before(a, b *podInfo) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	if !a.queued.added.Equal(b.queued.added) {
		return a.queued.added.Before(b.queued.added)
	}
	if !a.pod.CreationTimestamp.Equal(&b.pod.CreationTimestamp) {
		return a.pod.CreationTimestamp.Before(&b.pod.CreationTimestamp)
	}
	return a.queued.number < b.queued.number
}

type activeHeap []*podInfo

func (h activeHeap) Len() int           { return len(h) }
func (h activeHeap) Less(i, j int) bool { return before(h[i], h[j]) }
func (h activeHeap) Swap(i, j int)      { swap(h, i, j) }
func (h *activeHeap) Push(x any)        { *h = push(*h, x) }
func (h *activeHeap) Pop() (x any)      { *h, x = pop(*h); return x }

type timedHeap []*podInfo

func (h timedHeap) Len() int           { return len(h) }
func (h timedHeap) Less(i, j int) bool { return h[i].queued.due.Before(h[j].queued.due) }
func (h timedHeap) Swap(i, j int)      { swap(h, i, j) }
func (h *timedHeap) Push(x any)        { *h = push(*h, x) }
func (h *timedHeap) Pop() (x any)      { *h, x = pop(*h); return x }

func swap(h []*podInfo, i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].queued.index, h[j].queued.index = i, j
}

func push(h []*podInfo, x any) []*podInfo {
	p := x.(*podInfo)
	p.queued.index = len(h)
	return append(h, p)
}

func pop(h []*podInfo) ([]*podInfo, any) {
	last := len(h) - 1
	p := h[last]
	h[last] = nil
	return h[:last], p
}
