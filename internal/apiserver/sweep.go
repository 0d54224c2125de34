package apiserver

import (
	"context"
	"time"

	"github.com/setpoint-project/setpoint/internal/store"
)

// sweepEvery is how often the sweeper comes by. What nobody read between two of
// its visits is dropped.
const sweepEvery = 20 * time.Second

// sweep drops decoded objects and encodings that nobody reads: 30,000 objects
// that were only written, or listed once, shall not stay in memory three times
// over. The stored bytes are always there to make them again.
func (s *Server) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sweepOnce(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) sweepOnce(ctx context.Context) {
	got, err := s.store.Range(ctx, store.Range{Prefix: "/registry/"})
	if err != nil {
		return
	}
	for _, rec := range got.Records {
		p := rec.Decoded.Load()
		if p == nil {
			continue
		}
		e, ok := (*p).(*entry)
		if !ok || e.used.CompareAndSwap(true, false) {
			continue
		}
		if e.res.readers.views.Load() == 0 {
			rec.Decoded.CompareAndSwap(p, nil)
			continue
		}
		// A view shows it: dropping the object would only make it come back.
		e.mu.Lock()
		e.encs = nil
		e.mu.Unlock()
	}
}
