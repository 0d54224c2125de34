package local

import (
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/setpoint-project/setpoint/internal/store"
)

// How much of the past is replayed from disk at once.
const (
	replayEvents = 1000
	replayBytes  = 4 << 20
)

// rangeAt reads at a revision from the versions on disk.
//
// Pebble shows batches before they are durable; those have revisions above
// r.Revision, which was durable already. Versions that compaction takes away
// meanwhile are noticed at the end: state.oldest rises before anything goes.
func (d *disk) rangeAt(ctx context.Context, s *Store, r store.Range) (store.Result, error) {
	if err := d.use(); err != nil {
		return store.Result{}, err
	}
	defer d.release()
	from := max(r.Prefix, r.After)
	o := &pebble.IterOptions{LowerBound: append([]byte("m/"), from...), UpperBound: versionEnd}
	if e := prefixEnd(r.Prefix); e != "" {
		o.UpperBound = append([]byte("m/"), e...)
	}
	it, err := d.db.NewIter(o)
	if err != nil {
		return store.Result{}, fmt.Errorf("store: cannot read revision %d: %w", r.Revision, err)
	}
	defer it.Close()
	st := s.state.Load()
	if r.Revision < st.oldest {
		return store.Result{}, store.ErrCompacted
	}

	res := store.Result{Revision: r.Revision}
	var v version // the newest version of its key up to r.Revision
	add := func() {
		switch {
		case v.value == nil || string(v.key) == r.After:
		case r.Limit > 0 && len(res.Records) == r.Limit:
			res.Remaining++
		default:
			res.Records = append(res.Records, st.share(v.record()))
		}
		v.value = nil
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%1000 == 0 && ctx.Err() != nil {
			return store.Result{}, ctx.Err()
		}
		key, rev, err := parseVersionKey(it.Key())
		if err != nil {
			return store.Result{}, err
		}
		if string(key) != string(v.key) {
			add()
		}
		if rev > r.Revision {
			continue
		}
		if err := v.set(key, rev, it); err != nil {
			return store.Result{}, err
		}
	}
	add()
	if err := it.Error(); err != nil {
		return store.Result{}, fmt.Errorf("store: cannot read revision %d: %w", r.Revision, err)
	}
	return res, nil
}

// share returns the live record when r is a copy of it, so that what hangs on
// it is shared.
func (st *state) share(r *store.Record) *store.Record {
	if live := st.live.get(r.Key); live != nil {
		if live.Revision == r.Revision {
			return live
		}
		r.Key = live.Key
	}
	return r
}

// replay reads the changes after revision from disk, at most up to and
// including until, and returns how far it came.
func (d *disk) replay(s *Store, prefix string, after, until int64) (events []store.Event, upTo int64, err error) {
	if err := d.use(); err != nil {
		return nil, 0, err
	}
	defer d.release()
	it, err := d.db.NewIter(&pebble.IterOptions{
		LowerBound: appendHistoryKey(nil, after+1),
		UpperBound: appendHistoryKey(nil, until+1),
	})
	if err != nil {
		return nil, 0, fmt.Errorf("store: cannot read history: %w", err)
	}
	defer it.Close()
	st := s.state.Load()
	upTo = after
	bytes := 0
	for ok := it.First(); ok && len(events) < replayEvents && bytes < replayBytes; ok = it.Next() {
		c, err := d.change(it)
		if err != nil {
			return nil, 0, err
		}
		if strings.HasPrefix(c.key, prefix) {
			e, err := d.event(st, c)
			if s.state.Load().oldest > after {
				return nil, 0, store.ErrCompacted
			}
			if err != nil {
				return nil, 0, err
			}
			bytes += len(e.Record.Value)
			events = append(events, e)
		}
		upTo = c.revision
	}
	if err := it.Error(); err != nil {
		return nil, 0, fmt.Errorf("store: cannot read history: %w", err)
	}
	if s.state.Load().oldest > after {
		return nil, 0, store.ErrCompacted
	}
	return events, upTo, nil
}

func (d *disk) change(it *pebble.Iterator) (change, error) {
	revision, err := parseHistoryKey(it.Key())
	if err != nil {
		return change{}, err
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return change{}, fmt.Errorf("store: cannot read history: %w", err)
	}
	return parseChange(revision, v)
}

// event makes the event of a change from the two versions it lies between.
func (d *disk) event(st *state, c change) (e store.Event, err error) {
	if c.prev != 0 {
		if e.Prev, err = d.versionAt(st, c.key, c.prev); err != nil {
			return e, err
		}
	}
	e.Record, err = d.versionAt(st, c.key, c.revision)
	if err == nil && e.Deleted() != c.deleted {
		err = fmt.Errorf("store: history and version of %s disagree at revision %d", c.key, c.revision)
	}
	return e, err
}

func (d *disk) versionAt(st *state, key string, revision int64) (*store.Record, error) {
	if live := st.live.get(key); live != nil && live.Revision == revision {
		return live, nil
	}
	raw, ok, err := d.get(appendVersionKey(nil, key, revision))
	if err != nil {
		return nil, fmt.Errorf("store: cannot read %s at revision %d: %w", key, revision, err)
	}
	if !ok {
		return nil, fmt.Errorf("store: %s at revision %d is missing", key, revision)
	}
	created, value, err := parseVersion(raw)
	if err != nil {
		return nil, err
	}
	return &store.Record{Key: key, Value: value, Revision: revision, Created: created}, nil
}
