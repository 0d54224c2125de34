package local

import (
	"fmt"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
)

func appendEvents(l *logWriter, n, prevBytes int) {
	for range n {
		e := store.Event{Record: &store.Record{Key: "/a", Value: []byte{}, Revision: l.next}}
		if prevBytes > 0 {
			e.Prev = &store.Record{Key: "/a", Value: make([]byte, prevBytes), Revision: l.next - 1}
		}
		l.append(e)
	}
}

// A view holds its events whatever is appended and dropped after it was taken.
func TestLogViews(t *testing.T) {
	l := logWriter{log: newLog(10), limits: limits{events: 600, bytes: 1 << 30}}
	var views []log
	for range 50 {
		appendEvents(&l, 37, 0)
		l.trim(0)
		views = append(views, l.log)
	}
	for i, v := range views {
		want := v.base
		v.after(0, func(e store.Event) bool {
			if e.Record.Revision != want {
				t.Fatalf("view %d: got %d, want %d", i, e.Record.Revision, want)
			}
			want++
			return true
		})
		if want != v.next || v.next != 11+int64(i+1)*37 {
			t.Errorf("view %d ends at %d, want %d", i, want, v.next)
		}
		if n := v.next - v.base; n > 600+chunkLen {
			t.Errorf("view %d has %d events", i, n)
		}
	}
}

func TestLogTrim(t *testing.T) {
	for _, c := range []struct {
		name      string
		limits    limits
		prevBytes int
		forget    int64
		oldest    int64 // that the log still has
	}{
		{"all", limits{10_000, 1 << 30}, 1000, 0, 2},
		{"by count", limits{1000, 1 << 30}, 0, 0, 2 + 4*chunkLen},
		{"by bytes", limits{10_000, 600 * 1000}, 1000, 0, 2 + 6*chunkLen},
		{"creations cost nothing", limits{10_000, 1000}, 0, 0, 2},
		{"forgotten", limits{10_000, 1 << 30}, 0, 2 + 3*chunkLen, 2 + 3*chunkLen},
		{"the last chunk stays", limits{1, 1}, 1000, 1 << 40, 2 + 7*chunkLen},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := logWriter{log: newLog(1), limits: c.limits}
			appendEvents(&l, 8*chunkLen, c.prevBytes)
			l.trim(c.forget)
			if l.base != c.oldest {
				t.Errorf("begins at %d, want %d", l.base, c.oldest)
			}
			if !l.since(c.oldest-1) || l.since(c.oldest-2) {
				t.Error("since does not say where the log begins")
			}
			sum := 0
			for _, ch := range l.chunks {
				sum += ch.bytes
			}
			if sum != l.bytes {
				t.Errorf("counts %d bytes, the chunks have %d", l.bytes, sum)
			}
		})
	}
}

func TestLogCost(t *testing.T) {
	live := &store.Record{Value: make([]byte, 1000)}
	decoded := &store.Record{Value: make([]byte, 1000)}
	decoded.Decoded.Store(new(any))
	gone := &store.Record{}
	for _, c := range []struct {
		e        store.Event
		min, max int
	}{
		{store.Event{Record: live}, 0, 0},
		{store.Event{Record: live, Prev: live}, 1000, 1200},
		{store.Event{Record: live, Prev: decoded}, 3000, 5000},
		{store.Event{Record: gone, Prev: live}, 1000, 1300},
	} {
		if got := cost(c.e); got < c.min || got > c.max {
			t.Errorf("%s: got %d, want %d to %d", fmt.Sprint(c.e), got, c.min, c.max)
		}
	}
}
