package apiserver

import (
	"context"
	"time"

	"github.com/setpoint-project/setpoint/internal/store"
)

// Decoded objects and encodings are kept while somebody reads them: 30,000
// objects that were only written, or listed once, shall not stay in memory
// three times over. The stored bytes are always there to make them again.
//
// What was just written is decoded already, and whoever follows the resource
// will look at it at once: the last recentKept records keep their objects.
// What was read since the sweeper last came by keeps its object as well.

const (
	sweepEvery = 15 * time.Second
	recentKept = 2048
)

// recentRecords is a ring of what was written last.
type recentRecords struct {
	ring [recentKept]recentRecord
	next int
}

type recentRecord struct {
	rec  *store.Record
	past bool // superseded or gone: only the store's history holds it
}

// take adds what an event brings.
func (r *recentRecords) take(ev *store.Event) {
	r.add(recentRecord{rec: ev.Record, past: ev.Deleted()})
	if ev.Prev != nil {
		r.add(recentRecord{rec: ev.Prev, past: true})
	}
}

// add drops the object of the oldest record: the sweeper does not come by what
// is past, so of that it goes even if it was read.
func (r *recentRecords) add(in recentRecord) {
	switch out := r.ring[r.next]; {
	case out.rec == nil:
	case out.past:
		out.rec.Decoded.Store(nil)
	default:
		forget(out.rec, false)
	}
	r.ring[r.next] = in
	r.next = (r.next + 1) % recentKept
}

// forget drops the decoded form of a record that nobody used. With age, a use
// before the last visit no longer counts.
func forget(rec *store.Record, age bool) {
	p := rec.Decoded.Load()
	if p == nil {
		return
	}
	e, ok := (*p).(*entry)
	if !ok || e.used.Load() {
		if ok && age {
			e.used.Store(false)
			e.age()
		}
		return
	}
	rec.Decoded.CompareAndSwap(p, nil)
}

// sweep visits all records from time to time until ctx ends.
func (s *Server) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			got, err := s.store.Range(ctx, store.Range{Prefix: "/registry/"})
			if err != nil {
				continue
			}
			for _, rec := range got.Records {
				forget(rec, true)
			}
		case <-ctx.Done():
			return
		}
	}
}
