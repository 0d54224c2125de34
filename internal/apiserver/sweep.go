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
	ring [recentKept]*store.Record
	next int
}

// add takes rec in, and drops the object of the oldest unless it was read.
func (r *recentRecords) add(rec *store.Record) {
	if old := r.ring[r.next]; old != nil {
		forget(old, false)
	}
	r.ring[r.next] = rec
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
