package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
)

// testWatchers watches while many write. What was acknowledged is the truth:
// each watch must show exactly the part of it that has its prefix and comes
// after its start, in order, also when it is closed and resumed again and
// again; and each event must fit the one before it of its key.
func testWatchers(t *testing.T, s store.Store) {
	const writers, each, watchers = 6, 300, 12
	seed := Seed(t)
	ctx := waiting(t)
	prefixes := []string{"/", "/a/", "/b/", "/a/1"}
	const last = "/a/1-last" // has all prefixes but /b/
	ends := map[string]string{"/": last, "/a/": last, "/a/1": last, "/b/": "/b/last"}

	var watching sync.WaitGroup
	seen := make([][]store.Event, watchers)
	for i := range watchers {
		prefix := prefixes[i%len(prefixes)]
		rng := rand.New(rand.NewPCG(seed, uint64(1000+i)))
		watching.Go(func() {
			after := int64(1)
			for {
				w, err := s.Watch(ctx, prefix, after)
				if err != nil {
					t.Errorf("watch %s after %d: %v", prefix, after, err)
					return
				}
				c := &watcher{t: t, ctx: ctx, w: w, upTo: after, last: after}
				for range 1 + rng.IntN(20) {
					events, err := c.next()
					if err != nil {
						t.Errorf("watch %s: %v", prefix, err)
						return
					}
					seen[i] = append(seen[i], events...)
					if events[len(events)-1].Record.Key == ends[prefix] {
						w.Close()
						return
					}
				}
				after = c.upTo
				w.Close()
			}
		})
	}

	var mu sync.Mutex
	var truth []store.Event
	acknowledge := func(e store.Event) {
		mu.Lock()
		defer mu.Unlock()
		truth = append(truth, e)
	}
	var writing sync.WaitGroup
	for i := range writers {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		writing.Go(func() {
			for range each {
				key := fmt.Sprintf("/%c/%d", 'a'+rng.IntN(3), rng.IntN(15))
				if rng.IntN(4) == 0 {
					e, err := s.Delete(ctx, key, store.Any)
					if err == nil {
						acknowledge(e)
					} else if c := (*store.Conflict)(nil); !errors.As(err, &c) {
						t.Error(err)
					}
					continue
				}
				r, err := s.Put(ctx, store.Put{Key: key, Value: []byte(key), Expect: store.Any})
				if err != nil {
					t.Error(err)
					return
				}
				acknowledge(store.Event{Record: r})
			}
		})
	}
	writing.Wait()
	acknowledge(store.Event{Record: put(t, s, "/b/last", "")})
	acknowledge(store.Event{Record: put(t, s, last, "")})
	watching.Wait()

	sort.Slice(truth, func(i, j int) bool { return truth[i].Record.Revision < truth[j].Record.Revision })
	for i, events := range seen {
		prefix := prefixes[i%len(prefixes)]
		var want []store.Event
		for _, e := range truth {
			if strings.HasPrefix(e.Record.Key, prefix) && (prefix != "/b/" || e.Record.Key != last) {
				want = append(want, e)
			}
		}
		if err := checkEvents(events, want); err != nil {
			t.Errorf("watch %d of %s: %v", i, prefix, err)
		}
	}
}

// checkEvents compares what a watch showed with what was acknowledged.
func checkEvents(got, want []store.Event) error {
	before := map[string]*store.Record{}
	for i, e := range got {
		if i >= len(want) {
			return fmt.Errorf("%d events, want %d", len(got), len(want))
		}
		r, w := e.Record, want[i].Record
		if r.Key != w.Key || r.Revision != w.Revision || e.Deleted() != want[i].Deleted() {
			return fmt.Errorf("event %d is %s at %d, want %s at %d", i, r.Key, r.Revision, w.Key, w.Revision)
		}
		if p := before[r.Key]; revisionOf(e.Prev) != revisionOf(p) {
			return fmt.Errorf("%s at %d: Prev is at %d, want %d", r.Key, r.Revision, revisionOf(e.Prev), revisionOf(p))
		}
		before[r.Key] = r
		if e.Deleted() {
			delete(before, r.Key)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d events, want %d", len(got), len(want))
	}
	return nil
}
