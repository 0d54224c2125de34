package apiserver

import (
	"fmt"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
)

// TestRecentForgets: of what falls out of the ring, the present keeps its
// object while it is read, and the past never does: the sweeper would not find
// it again.
func TestRecentForgets(t *testing.T) {
	for _, tc := range []struct {
		name          string
		past, used    bool
		keeps, keeps2 bool // after the ring, after the sweeper's two visits
	}{
		{"present and read", false, true, true, false},
		{"present", false, false, false, false},
		{"past and read", true, true, false, false},
		{"past", true, false, false, false},
	} {
		var r recentRecords
		e := &entry{}
		e.used.Store(tc.used)
		var boxed any = e
		rec := &store.Record{Key: "k", Value: []byte("v")}
		rec.Decoded.Store(&boxed)
		ev := store.Event{Record: rec}
		if tc.past {
			ev = store.Event{Record: &store.Record{Key: "k", Value: []byte("w")}, Prev: rec}
		}
		r.take(&ev)
		for i := range recentKept {
			if rec.Decoded.Load() == nil {
				t.Errorf("%s: forgotten after %d more", tc.name, i)
				break
			}
			r.take(&store.Event{Record: &store.Record{Key: fmt.Sprint(i), Value: []byte("v")}})
		}
		if got := rec.Decoded.Load() != nil; got != tc.keeps {
			t.Errorf("%s: kept is %v, want %v", tc.name, got, tc.keeps)
		}
		forget(rec, true)
		forget(rec, true)
		if got := rec.Decoded.Load() != nil; got != tc.keeps2 {
			t.Errorf("%s: kept by the sweeper is %v, want %v", tc.name, got, tc.keeps2)
		}
	}
}

// TestEncodingsAge: an object that is read all the time keeps its object, and
// its encodings only while somebody asks for them; a change that goes by
// leaves none.
func TestEncodingsAge(t *testing.T) {
	sv := &served{resource: &resource{}}
	e := &entry{}
	e.encs = []encoding{{data: []byte("{}")}}
	for i, tc := range []struct {
		ask  func()
		want int
	}{
		{func() { e.encode(sv, mediumJSON, formObject) }, 1},
		{func() { e.encode(sv, mediumJSON, formObject) }, 1},
		{func() { e.encodePassing(sv, mediumJSON, formObject) }, 0},
	} {
		tc.ask()
		if e.age(); len(e.encs) != tc.want {
			t.Errorf("visit %d: %d encodings kept, want %d", i, len(e.encs), tc.want)
		}
	}
}
