package local_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
