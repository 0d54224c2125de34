package local

import "time"

// history decides how much of the past is forgotten. It is asked after every
// batch and has no timer of its own: a store that nobody writes to grows no
// history, and an idle store has no goroutine that wakes.
type history struct {
	age       time.Duration
	revisions int64
	// marks say which revision was the newest when, a twentieth of age apart.
	marks []mark
}

type mark struct {
	revision int64
	at       time.Time
}

func newHistory(o Options, revision int64) history {
	return history{
		age:       o.HistoryAge,
		revisions: o.HistoryRevisions,
		marks:     []mark{{revision, time.Now()}},
	}
}

// forget returns the revision up to which history may go now, at most oldest
// when nothing may.
func (h *history) forget(revision, oldest int64, now time.Time) int64 {
	target := int64(0)
	// In steps, so that not every write starts a compaction.
	if revision-oldest > h.revisions+h.revisions/20 {
		target = revision - h.revisions
	}
	// What a mark names was already the past at its time.
	for len(h.marks) > 0 && now.Sub(h.marks[0].at) >= h.age {
		target = max(target, h.marks[0].revision)
		h.marks = h.marks[1:]
	}
	if n := len(h.marks); n == 0 || now.Sub(h.marks[n-1].at) >= h.age/20 {
		h.marks = append(h.marks, mark{revision, now})
	}
	return target
}
