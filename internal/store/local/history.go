package local

import "time"

// history decides how much of the past is forgotten. It is asked after every
// batch and has no timer of its own: a store that nobody writes to grows no
// history, and an idle store has no goroutine that wakes.
type history struct {
	age       time.Duration
	revisions int64
	// spans divide the time of writes, each a twentieth of age at most.
	spans []writeSpan
}

// writeSpan is a while in which writes came, the last of them at end.
type writeSpan struct {
	start, end time.Time
	revision   int64 // of the last
}

func newHistory(o Options, revision int64) history {
	now := time.Now()
	return history{
		age:       o.HistoryAge,
		revisions: o.HistoryRevisions,
		// When older revisions came is not known: count from now.
		spans: []writeSpan{{now, now, revision}},
	}
}

// forget takes note of a revision written now, and returns the revision up to
// which history may go, at most oldest when nothing may.
func (h *history) forget(revision, oldest int64, now time.Time) int64 {
	target := int64(0)
	// In steps, so that not every write starts a compaction.
	if revision-oldest > h.revisions+h.revisions/20 {
		target = revision - h.revisions
	}
	for len(h.spans) > 0 && now.Sub(h.spans[0].end) >= h.age {
		target = max(target, h.spans[0].revision)
		h.spans = h.spans[1:]
	}
	if n := len(h.spans); n > 0 && now.Sub(h.spans[n-1].start) < h.age/20 {
		h.spans[n-1].end, h.spans[n-1].revision = now, revision
	} else {
		h.spans = append(h.spans, writeSpan{now, now, revision})
	}
	return target
}
