package local

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/setpoint-project/setpoint/internal/store"
)

// contents lists the keys on disk, by their kind.
func contents(t *testing.T, d *disk) map[string]int {
	t.Helper()
	it, err := d.db.NewIter(&pebble.IterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	n := map[string]int{}
	for ok := it.First(); ok; ok = it.Next() {
		kind, _, _ := bytes.Cut(it.Key(), []byte("/"))
		n[string(kind)]++
	}
	return n
}

// What is forgotten is gone from disk: of the past nothing is left, of the
// live keys one version each, also when Pebble flushes and compacts meanwhile.
func TestCompactFrees(t *testing.T) {
	fs := vfs.NewMem()
	o := Churn(Options{Dir: "db", FS: fs})
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	live := map[string]bool{}
	for i := range 6000 {
		key := fmt.Sprintf("/k/%d", rng.IntN(100))
		if live[key] && rng.IntN(3) == 0 {
			_, err = s.Delete(t.Context(), key, store.Any)
			delete(live, key)
		} else {
			_, err = s.Put(t.Context(), store.Put{Key: key, Value: make([]byte, 300), Expect: store.Any})
			live[key] = true
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%1500 == 1499 {
			if err := s.Compact(t.Context(), s.Revision()-100); err != nil {
				t.Fatal(err)
			}
		}
	}
	revision := s.Revision()
	if err := s.Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Close stops the compactor where it is; here it goes on to the end.
	d, err := openDisk(func() Options { o.setDefaults(); return o }())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.load(); err != nil {
		t.Fatal(err)
	}
	for d.oldest < revision {
		if err := d.forget(min(revision, d.oldest+compactStep)); err != nil {
			t.Fatal(err)
		}
	}
	if n := contents(t, d); n["h"] != 0 || n["m"] != len(live) || n["s"] != 2 {
		t.Errorf("on disk are %v, want %d versions and no history", n, len(live))
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}

	// An empty history still tells the revision, which is never given again.
	s, err = Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Revision() != revision || s.Oldest() != revision {
		t.Errorf("revision %d, oldest %d, want %d", s.Revision(), s.Oldest(), revision)
	}
	if n, _ := s.Count(t.Context(), "/k/"); n != len(live) {
		t.Errorf("%d keys are live, want %d", n, len(live))
	}
}

// A store in memory forgets by age and count as well, and frees the records.
func TestMemoryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{HistoryAge: time.Minute, HistoryRevisions: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		put := func(n int) {
			t.Helper()
			for i := range n {
				_, err := s.Put(t.Context(), store.Put{Key: fmt.Sprint("/", i%7), Expect: store.Any})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		put(5000)
		if kept := s.Revision() - s.Oldest(); kept < 1000-chunkLen || kept > 1000+chunkLen {
			t.Errorf("%d revisions are kept, want about 1000", kept)
		}
		if n := len(s.state.Load().log.chunks); n > 1000/chunkLen+2 {
			t.Errorf("the log has %d chunks", n)
		}
		mark := s.Revision()
		time.Sleep(59 * time.Second)
		put(1)
		if s.Oldest() >= mark {
			t.Error("history of less than a minute is forgotten")
		}
		time.Sleep(8 * time.Second)
		put(1)
		if s.Oldest() != mark {
			t.Errorf("oldest is %d after the minute, want %d", s.Oldest(), mark)
		}
	})
}
