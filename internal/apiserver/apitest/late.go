package apitest

import (
	"context"
	"time"

	"github.com/setpoint-project/setpoint/internal/store"
)

// Late is a store whose watches tell of what was written a while after it can
// be read. So does any, on a machine that is busy elsewhere: what a server and
// its loops read is ahead of what they are told.
func Late(s store.Store, by time.Duration) store.Store { return late{s, by} }

type late struct {
	store.Store
	by time.Duration
}

func (s late) Watch(ctx context.Context, prefix string, after int64) (store.Watch, error) {
	w, err := s.Store.Watch(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	return lateWatch{w, s.by}, nil
}

type lateWatch struct {
	store.Watch
	by time.Duration
}

func (w lateWatch) Next(ctx context.Context) ([]store.Event, int64, error) {
	events, upTo, err := w.Watch.Next(ctx)
	select {
	case <-time.After(w.by):
	case <-ctx.Done():
	}
	return events, upTo, err
}
