package node

import "time"

// problem is what keeps a node from being ready; its zero value: nothing.
type problem struct {
	why   string
	since time.Time // when why was first seen
}

// note keeps what stands in the node's way; empty: nothing.
func (r *Reporter) note(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why != r.problem.why {
		r.problem = problem{why, time.Now()}
	}
}

// Problem is what keeps the node from being ready, and since when; empty:
// nothing, as far as it was looked at.
func (r *Reporter) Problem() (why string, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem.why, r.problem.since
}
