package local

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/setpoint-project/setpoint/internal/store"
)

func (s *Store) reading(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (*store.Record, int64, error) {
	if err := s.reading(ctx); err != nil {
		return nil, 0, err
	}
	st := s.state.Load()
	return st.live.get(key), st.revision, nil
}

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, prefix string) (int, error) {
	if err := s.reading(ctx); err != nil {
		return 0, err
	}
	return s.state.Load().live.countAfter(prefix, ""), nil
}

// Range implements store.Store.
func (s *Store) Range(ctx context.Context, r store.Range) (store.Result, error) {
	if err := s.reading(ctx); err != nil {
		return store.Result{}, err
	}
	st := s.state.Load()
	switch {
	case r.Revision < 0:
		return store.Result{}, fmt.Errorf("store: revision %d is negative", r.Revision)
	case r.Revision == 0 || r.Revision == st.revision:
		return st.rangeNow(r), nil
	case r.Revision > st.revision:
		return store.Result{}, store.ErrFuture
	case r.Revision < st.oldest:
		return store.Result{}, store.ErrCompacted
	case st.log.since(r.Revision):
		return st.rangeBack(r), nil
	}
	return s.disk.rangeAt(ctx, s, r)
}

func (st *state) rangeNow(r store.Range) store.Result {
	n := st.live.countAfter(r.Prefix, r.After)
	res := store.Result{Revision: st.revision}
	if r.Limit > 0 && n > r.Limit {
		res.Remaining = n - r.Limit
		n = r.Limit
	}
	if n == 0 {
		return res
	}
	res.Records = make([]*store.Record, 0, n)
	st.live.ascend(r.Prefix, r.After, func(rec *store.Record) bool {
		res.Records = append(res.Records, rec)
		return len(res.Records) < n
	})
	return res
}

// rangeBack reads at a revision that the log reaches back to: the live set,
// with every key that changed since as it was before its first change. Lists
// page through a revision of some seconds ago, so this is the common way to
// read the past, and it shares the records of the live set.
func (st *state) rangeBack(r store.Range) store.Result {
	before := map[string]*store.Record{} // nil: the key was not there
	var gone []*store.Record             // were there, and are no longer
	st.log.after(r.Revision, func(e store.Event) bool {
		key := e.Record.Key
		if !strings.HasPrefix(key, r.Prefix) || key <= r.After {
			return true
		}
		if _, ok := before[key]; ok {
			return true
		}
		before[key] = e.Prev
		if e.Prev != nil && st.live.get(key) == nil {
			gone = append(gone, e.Prev)
		}
		return true
	})
	sort.Slice(gone, func(i, j int) bool { return gone[i].Key < gone[j].Key })

	res := store.Result{Revision: r.Revision}
	add := func(rec *store.Record) {
		if r.Limit > 0 && len(res.Records) == r.Limit {
			res.Remaining++
			return
		}
		res.Records = append(res.Records, rec)
	}
	st.live.ascend(r.Prefix, r.After, func(rec *store.Record) bool {
		for len(gone) > 0 && gone[0].Key < rec.Key {
			add(gone[0])
			gone = gone[1:]
		}
		old, changed := before[rec.Key]
		switch {
		case !changed:
			add(rec)
		case old != nil:
			add(old)
		}
		return true
	})
	for _, rec := range gone {
		add(rec)
	}
	return res
}
