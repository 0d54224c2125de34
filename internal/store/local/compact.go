package local

import (
	"fmt"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
)

// compactStep is how many revisions one batch of a compaction forgets.
const compactStep = 1000

// compactor frees on disk what the writer has let go. The writer raises
// state.oldest first; whoever reads the past looks at it again after reading,
// so what goes here is never missed by someone who was served.
func (d *disk) compactor(s *Store) {
	for {
		select {
		case <-s.quit:
			return
		case <-d.compact:
		}
		for target := s.state.Load().oldest; d.oldest < target; target = s.state.Load().oldest {
			select {
			case <-s.quit:
				return
			default:
			}
			if s.w.failed() != nil {
				return
			}
			if err := d.forget(min(target, d.oldest+compactStep)); err != nil {
				// The next write would fail as well: say so now.
				s.w.fail(err)
				return
			}
		}
	}
}

// forget deletes the history after d.oldest up to and including target: of
// each change its entry, the version that it superseded, and its own when it
// is a deletion. What is left of older revisions is what was live at target.
//
// It is one batch with the note of how far it went, so it happens once: each
// version is written once and deleted once, as SingleDelete wants it. It needs
// no sync: lost in a crash, it is done again.
func (d *disk) forget(target int64) error {
	start := appendHistoryKey(nil, d.oldest+1)
	end := appendHistoryKey(nil, target+1)
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return fmt.Errorf("store: cannot read history: %w", err)
	}
	defer it.Close()
	b := d.db.NewBatch()
	defer b.Close()
	var key []byte
	for ok := it.First(); ok; ok = it.Next() {
		revision, err := parseHistoryKey(it.Key())
		if err != nil {
			return err
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("store: cannot read history: %w", err)
		}
		c, err := parseChange(revision, v)
		if err != nil {
			return err
		}
		if c.prev != 0 {
			key = appendVersionKey(key[:0], c.key, c.prev)
			if err := b.SingleDelete(key, nil); err != nil {
				return err
			}
		}
		if c.deleted {
			key = appendVersionKey(key[:0], c.key, c.revision)
			if err := b.SingleDelete(key, nil); err != nil {
				return err
			}
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("store: cannot read history: %w", err)
	}
	if err := b.DeleteRange(start, end, nil); err != nil {
		return err
	}
	if err := b.Set(oldestKey, strconv.AppendInt(nil, target, 10), nil); err != nil {
		return err
	}
	if err := d.commit(b, false); err != nil {
		return err
	}
	d.oldest = target
	return nil
}
