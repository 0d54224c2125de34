package local_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
)

// ledger is what the clients of a store know, for the crash tests: which
// writes they began, and which were acknowledged.
type ledger struct {
	mu    sync.Mutex
	begun map[string]string      // value -> key
	gone  map[string]bool        // keys that someone began to delete
	acked map[int64]acknowledged // by revision
	// onAck, when set, is called after each acknowledgement, while no other is
	// entered; writes go on meanwhile.
	onAck func()
}

type acknowledged struct{ key, value string } // value "" for a deletion

func newLedger() *ledger {
	return &ledger{begun: map[string]string{}, gone: map[string]bool{}, acked: map[int64]acknowledged{}}
}

func (l *ledger) begin(key, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if value == "" {
		l.gone[key] = true
	} else {
		l.begun[value] = key
	}
}

func (l *ledger) ack(revision int64, key, value string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.acked[revision]; ok {
		return fmt.Errorf("revision %d acknowledged for %v, and again for %s=%s", revision, old, key, value)
	}
	l.acked[revision] = acknowledged{key, value}
	if l.onAck != nil {
		l.onAck()
	}
	return nil
}

func (l *ledger) copyAcked() map[int64]acknowledged {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acked)
}

// write does n random writes; every value is written once only, so that it
// tells which write it is from. It stops at the first error that is not a
// conflict, and returns it.
func (l *ledger) write(t testing.TB, s store.Store, rng *rand.Rand, name string, n int) error {
	for i := range n {
		key := fmt.Sprintf("/k/%d", rng.IntN(20))
		expect := store.Any
		if r, _, err := s.Get(t.Context(), key); err == nil && r != nil && rng.IntN(2) == 0 {
			expect = r.Revision
		}
		var revision int64
		var value string
		var err error
		if rng.IntN(5) == 0 {
			l.begin(key, "")
			var e store.Event
			if e, err = s.Delete(t.Context(), key, expect); err == nil {
				revision = e.Record.Revision
			}
		} else {
			value = fmt.Sprintf("%s-%d-%0*d", name, i, rng.IntN(2000), 0)
			l.begin(key, value)
			var r *store.Record
			if r, err = s.Put(t.Context(), store.Put{Key: key, Value: []byte(value), Expect: expect}); err == nil {
				revision = r.Revision
			}
		}
		if c := (*store.Conflict)(nil); errors.As(err, &c) {
			continue
		}
		if err == nil {
			err = l.ack(revision, key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check opens the books after a crash: s must hold every write of must, and
// nothing that no one began; its history and its live set must tell the same.
func (l *ledger) check(t *testing.T, s store.Store, must map[int64]acknowledged) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx := t.Context()
	oldest, newest := s.Oldest(), s.Revision()

	start, err := s.Range(ctx, store.Range{Prefix: "/", Revision: oldest})
	if err != nil {
		t.Fatal(err)
	}
	live := map[string]*store.Record{}
	for _, r := range start.Records {
		live[r.Key] = r
	}
	// Before the oldest revision there is only what was acknowledged to go by.
	known := map[string]int64{}
	for rev := int64(2); rev <= oldest; rev++ {
		if a, ok := l.acked[rev]; ok {
			known[a.key] = rev
		}
	}
	for key, rev := range known {
		a, r := l.acked[rev], live[key]
		switch {
		case r == nil && a.value == "":
		case r != nil && r.Revision == rev && string(r.Value) == a.value:
		case r != nil && r.Revision > rev && l.acked[r.Revision] == acknowledged{}:
			// A write that was on disk when its process died.
		case r == nil:
			if !l.gone[key] {
				t.Errorf("%s at %d is lost", key, rev)
			}
		default:
			t.Errorf("%s is %.30q of %d, want %.30q of %d", key, r.Value, r.Revision, a.value, rev)
		}
	}

	at := oldest
	if newest > oldest {
		w, err := s.Watch(ctx, "/", oldest)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for at < newest {
			events, _, err := w.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				r := e.Record
				if at++; r.Revision != at {
					t.Fatalf("revision %d is followed by %d", at-1, r.Revision)
				}
				a, ok := l.acked[at]
				switch {
				case ok && (a.key != r.Key || a.value != string(r.Value)):
					t.Errorf("revision %d is %s=%.30q, acknowledged was %.30v", at, r.Key, r.Value, a)
				case !ok && e.Deleted() && !l.gone[r.Key], !ok && !e.Deleted() && l.begun[string(r.Value)] != r.Key:
					t.Errorf("revision %d is %s=%.30q, which nobody wrote", at, r.Key, r.Value)
				}
				if prev := live[r.Key]; (prev == nil) != (e.Prev == nil) || prev != nil && prev.Revision != e.Prev.Revision {
					t.Errorf("revision %d follows %v, says %v", at, prev, e.Prev)
				}
				live[r.Key] = r
				if e.Deleted() {
					delete(live, r.Key)
				}
			}
		}
	}
	for rev, a := range must {
		if rev > newest {
			t.Errorf("revision %d (%s) was acknowledged, the store is at %d", rev, a.key, newest)
		}
	}
	now, err := s.Range(ctx, store.Range{Prefix: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if len(now.Records) != len(live) {
		t.Errorf("%d keys are live, the history says %d", len(now.Records), len(live))
	}
	for _, r := range now.Records {
		if h := live[r.Key]; h == nil || h.Revision != r.Revision || string(h.Value) != string(r.Value) {
			t.Errorf("%s is live at %d, the history says %v", r.Key, r.Revision, h)
		}
	}
}
