package local_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
)

func mustOpen(t testing.TB, o local.Options) *local.Store {
	t.Helper()
	s, err := local.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustPut(t testing.TB, s store.Store, key, value string) *store.Record {
	t.Helper()
	r, err := s.Put(t.Context(), store.Put{Key: key, Value: []byte(value), Expect: store.Any})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, local.Options{Dir: dir})
	for i := range 100 {
		mustPut(t, s, fmt.Sprintf("/a/%d", i%10), fmt.Sprint(i))
	}
	if _, err := s.Delete(t.Context(), "/a/3", store.Any); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(local.Options{Dir: dir}); err == nil {
		t.Fatal("opened twice")
	} else {
		t.Log(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s = mustOpen(t, local.Options{Dir: dir})
	t.Log("open took", time.Since(start))
	if got := s.Revision(); got != 102 {
		t.Errorf("revision %d, want 102", got)
	}
	res, err := s.Range(t.Context(), store.Range{Prefix: "/a/"})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range res.Records {
		got += r.Key + "=" + string(r.Value) + " "
	}
	if want := "/a/0=90 /a/1=91 /a/2=92 /a/4=94 /a/5=95 /a/6=96 /a/7=97 /a/8=98 /a/9=99 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMemoryInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := local.Open(local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.Watch(t.Context(), "/a/", 1)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		go func() {
			for {
				events, _, err := w.Next(t.Context())
				if err != nil {
					return
				}
				seen += len(events)
			}
		}()
		mustPut(t, s, "/a/1", "x")
		mustPut(t, s, "/b/1", "x")
		time.Sleep(time.Hour)
		mustPut(t, s, "/a/1", "y")
		synctest.Wait()
		if seen != 2 {
			t.Errorf("saw %d events, want 2", seen)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// Whoever reads a key gets the very record that the writer got, so that its
// decoded object exists once.
func TestRecordsAreShared(t *testing.T) {
	s := mustOpen(t, local.Options{Dir: "db", FS: vfs.NewMem()})
	w, err := s.Watch(t.Context(), "/", 1)
	if err != nil {
		t.Fatal(err)
	}
	first := mustPut(t, s, "/a", "1")
	second := mustPut(t, s, "/a", "2")
	var events []store.Event
	for len(events) < 2 {
		more, _, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, more...)
	}
	got, _, err := s.Get(t.Context(), "/a")
	if err != nil {
		t.Fatal(err)
	}
	back, err := s.Range(t.Context(), store.Range{Prefix: "/", Revision: first.Revision})
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]*store.Record{
		"get":        {got, second},
		"event":      {events[1].Record, second},
		"prev":       {events[1].Prev, first},
		"range back": {back.Records[0], first},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: another record with the same content", what)
		}
	}
}

// Also what is read from disk is shared where it is still live.
func TestReplayShares(t *testing.T) {
	o := local.Options{Dir: "db", FS: vfs.NewMem()}
	s := mustOpen(t, o)
	mustPut(t, s, "/a", "1")
	rev := mustPut(t, s, "/b", "1").Revision
	mustPut(t, s, "/b", "2")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o)
	live, _, err := s.Get(t.Context(), "/a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch(t.Context(), "/a", 1)
	if err != nil {
		t.Fatal(err)
	}
	events, _, err := w.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back, err := s.Range(t.Context(), store.Range{Prefix: "/a", Revision: rev})
	if err != nil {
		t.Fatal(err)
	}
	if events[0].Record != live || back.Records[0] != live {
		t.Error("what came from disk is not the live record")
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, o := range map[string]local.Options{
		"file system without folder": {FS: vfs.NewMem()},
		"negative age":               {HistoryAge: -1},
		"negative count":             {HistoryRevisions: -1},
		"a file for a folder":        {Dir: "/dev/null/x"},
	} {
		if s, err := local.Open(o); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		} else if !strings.HasPrefix(err.Error(), "store: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A folder that a newer program wrote is left alone.
func TestNewerFormat(t *testing.T) {
	fs := vfs.NewMem()
	db, err := pebble.Open("db", &pebble.Options{FS: fs, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Set([]byte("s/format"), []byte("99"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(local.Options{Dir: "db", FS: fs}); err == nil || !strings.Contains(err.Error(), `"99"`) {
		t.Errorf("got %v, want an error that names the format", err)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)         {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
