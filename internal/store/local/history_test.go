package local

import (
	"testing"
	"time"
)

// History keeps what the options say, whatever the rhythm of writes.
func TestHistory(t *testing.T) {
	for _, c := range []struct {
		name      string
		age       time.Duration
		revisions int64
		every     time.Duration // between writes
		writes    int
		low, high int64 // revisions kept at the end
	}{
		{"few and young", time.Hour, 1000, time.Second, 500, 500, 500},
		{"by count", time.Hour, 100, time.Second, 1000, 100, 105},
		{"by age", time.Minute, 1000, time.Second, 500, 60, 65},
		{"by age, slow writes", time.Minute, 1000, 40 * time.Second, 100, 1, 3},
		{"by age, fast writes", time.Minute, 1 << 40, time.Millisecond, 200_000, 60_000, 64_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory(Options{HistoryAge: c.age, HistoryRevisions: c.revisions}, 1)
			now := time.Now()
			revision, oldest := int64(1), int64(1)
			for range c.writes {
				now = now.Add(c.every)
				revision++
				oldest = max(oldest, h.forget(revision, oldest, now))
			}
			if kept := revision - oldest; kept < c.low || kept > c.high {
				t.Errorf("%d revisions are kept, want %d to %d", kept, c.low, c.high)
			}
			if len(h.spans) > 25 {
				t.Errorf("%d spans", len(h.spans))
			}
		})
	}
}
