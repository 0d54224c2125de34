package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
)

// call is one call of a client: when it began and ended on a clock that all
// clients share, and what came of it.
type call struct {
	begin, end int64
	kind       kind
	key        string
	expect     int64 // of a write
	revision   int64 // given to a write, or at which a read is true
	// found is the revision of the key that a read or a refused write saw;
	// 0 when the key was not there.
	found int64
}

type kind int

const (
	read kind = iota
	written
	deleted
	refused
)

func (c call) String() string {
	return fmt.Sprintf("[%d,%d] %s %s expect %d: revision %d, found %d", c.begin, c.end,
		[...]string{"read", "put", "delete", "refused"}[c.kind], c.key, c.expect, c.revision, c.found)
}

// checkLinear tells why the calls are not those of one atomic store, or
// returns nil. Revisions give away the order in which writes took effect, so
// that no search is needed; what remains is to see that the order explains
// every result, and that it agrees with the clock.
func checkLinear(calls []call) error {
	var writes []call
	for _, c := range calls {
		if c.kind == written || c.kind == deleted {
			writes = append(writes, c)
		}
	}
	sort.Slice(writes, func(i, j int) bool { return writes[i].revision < writes[j].revision })

	// Each write found the key as the writes before it left it.
	spans := map[string][]span{}
	for i, w := range writes {
		if i > 0 && writes[i-1].revision == w.revision {
			return fmt.Errorf("one revision for two writes:\n%v\n%v", writes[i-1], w)
		}
		key := spans[w.key]
		if key == nil {
			key = []span{{from: 0, found: 0}}
		}
		have := key[len(key)-1].found
		if w.expect != store.Any && w.expect != have {
			return fmt.Errorf("the key was at %d when it was written:\n%v", have, w)
		}
		next := span{from: w.revision, found: w.revision}
		if w.kind == deleted {
			if have == 0 {
				return fmt.Errorf("deleted what was not there:\n%v", w)
			}
			next.found = 0
		}
		spans[w.key] = append(key, next)
	}

	// Revisions agree with the clock.
	if err := checkClock(calls); err != nil {
		return err
	}
	for _, c := range calls {
		key := spans[c.key]
		if key == nil {
			key = []span{{}}
		}
		switch c.kind {
		case read:
			if i := spanAt(key, c.revision); key[i].found != c.found {
				return fmt.Errorf("the key was at %d then:\n%v", key[i].found, c)
			}
		case refused:
			// There was a moment during the call when this was so.
			low, high := bounds(writes, c)
			ok := false
			for i := spanAt(key, low); i < len(key) && key[i].from <= high; i++ {
				ok = ok || key[i].found == c.found && key[i].found != c.expect
			}
			if !ok {
				return fmt.Errorf("no revision from %d to %d refuses:\n%v", low, high, c)
			}
		}
	}
	return nil
}

// span says that a key was at found from a revision on.
type span struct{ from, found int64 }

// spanAt is the index of the span at a revision.
func spanAt(s []span, revision int64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].from > revision }) - 1
}

// bounds are the revisions that the store may have had during a call.
func bounds(writes []call, c call) (low, high int64) {
	for _, w := range writes {
		if w.end < c.begin {
			low = max(low, w.revision)
		}
		if w.begin < c.end {
			high = max(high, w.revision)
		}
	}
	return low, high
}

// checkClock finds a call that did not see what was over before it began, or
// that saw what had not begun when it was over.
func checkClock(calls []call) error {
	byBegin := append([]call(nil), calls...)
	sort.Slice(byBegin, func(i, j int) bool { return byBegin[i].begin < byBegin[j].begin })
	byEnd := append([]call(nil), calls...)
	sort.Slice(byEnd, func(i, j int) bool { return byEnd[i].end < byEnd[j].end })

	var seen call // the newest revision that anyone had seen
	i := 0
	for _, c := range byBegin {
		for ; i < len(byEnd) && byEnd[i].end < c.begin; i++ {
			if byEnd[i].revision > seen.revision {
				seen = byEnd[i]
			}
		}
		switch {
		case c.kind == refused:
		case c.revision < seen.revision, c.kind != read && c.revision == seen.revision:
			return fmt.Errorf("an older revision after a newer one:\n%v\n%v", seen, c)
		}
	}
	var begun int64 // the newest revision of a write that had begun
	i = 0
	for _, c := range byEnd {
		for ; i < len(byBegin) && byBegin[i].begin < c.end; i++ {
			if w := byBegin[i]; w.kind == written || w.kind == deleted {
				begun = max(begun, w.revision)
			}
		}
		if c.kind == read && c.revision > max(begun, 1) {
			return fmt.Errorf("a revision that no write had begun:\n%v", c)
		}
	}
	return nil
}

// testLinearizable lets clients fight over a few keys and checks all that they
// were told.
func testLinearizable(t *testing.T, s store.Store) {
	const clients, each = 8, 400
	seed := Seed(t)
	var clock atomic.Int64
	all := make([][]call, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			seen := map[string]int64{}
			for range each {
				c, err := oneCall(t, s, rng, seen, &clock)
				if err != nil {
					t.Errorf("%v: %v", c, err)
					return
				}
				all[i] = append(all[i], c)
			}
		})
	}
	wg.Wait()
	var calls []call
	counts := map[kind]int{}
	for _, cs := range all {
		calls = append(calls, cs...)
		for _, c := range cs {
			counts[c.kind]++
		}
	}
	if err := checkLinear(calls); err != nil {
		t.Error(err)
	}
	for k, name := range map[kind]string{read: "reads", written: "puts", deleted: "deletes", refused: "refused writes"} {
		if counts[k] == 0 {
			t.Errorf("there were no %s, so they were not tested", name)
		}
	}
}

// oneCall does something to a key, knowing only what this client has seen.
func oneCall(t *testing.T, s store.Store, rng *rand.Rand, seen map[string]int64, clock *atomic.Int64) (call, error) {
	ctx := t.Context()
	c := call{key: fmt.Sprintf("/k/%d", rng.IntN(4)), expect: store.Any}
	if rng.IntN(4) > 0 {
		c.expect = seen[c.key]
	}
	var err error
	n := rng.IntN(10)
	c.begin = clock.Add(1)
	switch {
	case n < 3:
		var r *store.Record
		r, c.revision, err = s.Get(ctx, c.key)
		c.end = clock.Add(1)
		c.found = revisionOf(r)
	case n < 8:
		var r *store.Record
		r, err = s.Put(ctx, store.Put{Key: c.key, Value: []byte("x"), Expect: c.expect})
		c.end = clock.Add(1)
		c.kind = written
		c.revision = revisionOf(r)
		c.found = c.revision
	default:
		var e store.Event
		e, err = s.Delete(ctx, c.key, c.expect)
		c.end = clock.Add(1)
		c.kind = deleted
		c.revision = revisionOf(e.Record)
	}
	var conflict *store.Conflict
	if errors.As(err, &conflict) {
		if c.kind == deleted && conflict.Current == nil {
			c.expect = -2 // nothing to delete: refused whatever it expected
		}
		c.kind, c.found, err = refused, revisionOf(conflict.Current), nil
	}
	seen[c.key] = c.found
	return c, err
}
