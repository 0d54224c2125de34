package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
)

// watcher reads one watch and checks what every watch owes: order, no event
// twice, none at or below a revision that was said to be complete.
type watcher struct {
	t    testing.TB
	ctx  context.Context
	w    store.Watch
	upTo int64
	last int64
	kept []store.Event // read and not asked for yet
}

func startWatch(t testing.TB, s store.Store, prefix string, after int64) *watcher {
	t.Helper()
	ctx := waiting(t)
	w, err := s.Watch(ctx, prefix, after)
	if err != nil {
		t.Fatalf("watch %s after %d: %v", prefix, after, err)
	}
	t.Cleanup(w.Close)
	return &watcher{t: t, ctx: ctx, w: w, upTo: after, last: after}
}

// next reads once.
func (w *watcher) next() ([]store.Event, error) {
	events, upTo, err := w.w.Next(w.ctx)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("Next returned nothing")
	}
	for _, e := range events {
		r := e.Record.Revision
		if r <= w.last {
			return nil, fmt.Errorf("event %d comes after %d", r, w.last)
		}
		if r <= w.upTo {
			return nil, fmt.Errorf("event %d comes after %d was said to be complete", r, w.upTo)
		}
		w.last = r
	}
	if upTo < w.last {
		return nil, fmt.Errorf("complete up to %d, but event %d was delivered", upTo, w.last)
	}
	w.upTo = upTo
	return events, nil
}

// need returns the next n events.
func (w *watcher) need(n int) []store.Event {
	w.t.Helper()
	for len(w.kept) < n {
		events, err := w.next()
		if err != nil {
			w.t.Fatalf("watch: %v", err)
		}
		w.kept = append(w.kept, events...)
	}
	events := w.kept[:n:n]
	w.kept = w.kept[n:]
	return events
}

// want reads as many events as the description has: +key=value for a creation,
// key=value for an update, -key for a deletion.
func (w *watcher) want(want string) {
	w.t.Helper()
	if got := showEvents(w.need(len(strings.Fields(want)))); got != want {
		w.t.Errorf("watch:\n got %s\nwant %s", got, want)
	}
}

func showEvents(events []store.Event) string {
	var out []string
	for _, e := range events {
		switch {
		case e.Deleted():
			out = append(out, "-"+e.Record.Key)
		case e.Prev == nil:
			out = append(out, fmt.Sprintf("+%s=%s", e.Record.Key, e.Record.Value))
		default:
			out = append(out, fmt.Sprintf("%s=%s", e.Record.Key, e.Record.Value))
		}
	}
	return strings.Join(out, " ")
}

func testWatch(t *testing.T, s store.Store) {
	w := startWatch(t, s, "/p/", s.Revision())
	a := put(t, s, "/p/a", "1")
	put(t, s, "/q/a", "not seen")
	b := put(t, s, "/p/a", "2")
	c := del(t, s, "/p/a")
	put(t, s, "/p/a", "3")
	events := w.need(3)
	if got, want := showEvents(events), "+/p/a=1 /p/a=2 -/p/a"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	want(t, "creation", events[0].Record, "/p/a", "1", a.Revision, a.Revision)
	want(t, "update", events[1].Record, "/p/a", "2", b.Revision, a.Revision)
	want(t, "before the update", events[1].Prev, "/p/a", "1", a.Revision, a.Revision)
	want(t, "before the deletion", events[2].Prev, "/p/a", "2", b.Revision, a.Revision)
	if got := events[2].Record.Revision; got != c.Record.Revision {
		t.Errorf("the deletion is at %d, want %d", got, c.Record.Revision)
	}
	w.want("+/p/a=3")
}

// A watch may begin after any revision and sees all that follows it.
func testWatchResume(t *testing.T, s store.Store) {
	put(t, s, "/p/a", "1")
	put(t, s, "/p/b", "1")
	put(t, s, "/q/b", "1")
	del(t, s, "/p/b")
	put(t, s, "/p/a", "2")
	end := s.Revision()
	all := startWatch(t, s, "/p/", 1).need(4)
	for after := int64(1); after < end; after++ {
		var want []store.Event
		for _, e := range all {
			if e.Record.Revision > after {
				want = append(want, e)
			}
		}
		got := startWatch(t, s, "/p/", after).need(len(want))
		if showEvents(got) != showEvents(want) {
			t.Errorf("after %d:\n got %s\nwant %s", after, showEvents(got), showEvents(want))
		}
	}
}

func testWatchFuture(t *testing.T, s store.Store) {
	put(t, s, "/p/a", "1")
	w := startWatch(t, s, "/p/", s.Revision()+2)
	put(t, s, "/p/a", "2")
	put(t, s, "/p/a", "3")
	put(t, s, "/p/a", "4")
	w.want("/p/a=4")
}

func testWatchPrefix(t *testing.T, s store.Store) {
	watches := map[string]string{
		"":        "+/p/a=1 +/p/a/x=2 +/pp/a=3 +/p/ab=4 +q=5",
		"/":       "+/p/a=1 +/p/a/x=2 +/pp/a=3 +/p/ab=4",
		"/p/":     "+/p/a=1 +/p/a/x=2 +/p/ab=4",
		"/p/a":    "+/p/a=1 +/p/a/x=2 +/p/ab=4",
		"/p/a/":   "+/p/a/x=2",
		"/p/a/x":  "+/p/a/x=2",
		"/p/a/xx": "",
		"q":       "+q=5",
	}
	ws := map[string]*watcher{}
	for prefix := range watches {
		ws[prefix] = startWatch(t, s, prefix, 1)
	}
	for i, key := range []string{"/p/a", "/p/a/x", "/pp/a", "/p/ab", "q"} {
		put(t, s, key, fmt.Sprint(i+1))
	}
	for prefix, want := range watches {
		ws[prefix].want(want)
	}
	// One more event for each: nothing else was between.
	for prefix, w := range ws {
		put(t, s, prefix+"z", "end")
		for prefix2, w2 := range ws {
			if strings.HasPrefix(prefix+"z", prefix2) && prefix2 != prefix {
				w2.need(1)
			}
		}
		w.want("+" + prefix + "z=end")
	}
}

// A watch that slept while much else was written is not behind.
func testWatchIdle(t *testing.T, s store.Store) {
	w := startWatch(t, s, "/p/", s.Revision())
	put(t, s, "/p/a", "1")
	w.want("+/p/a=1")
	for i := range 600 {
		put(t, s, fmt.Sprintf("/q/%d", i%10), "x")
	}
	put(t, s, "/p/a", "2")
	for i := range 600 {
		put(t, s, fmt.Sprintf("/q/%d", i%10), "x")
	}
	put(t, s, "/p/a", "3")
	w.want("/p/a=2 /p/a=3")
}

func testWatchEnds(t *testing.T, s store.Store) {
	next := func(ctx context.Context, w store.Watch) chan error {
		ended := make(chan error, 1)
		go func() {
			_, _, err := w.Next(ctx)
			ended <- err
		}()
		return ended
	}
	ctx, cancel := context.WithCancel(waiting(t))
	w, err := s.Watch(ctx, "/", s.Revision())
	if err != nil {
		t.Fatal(err)
	}
	ended := next(waiting(t), w)
	cancel()
	if err := <-ended; err == nil {
		t.Error("the watch went on after its context had ended")
	}

	w = startWatch(t, s, "/", s.Revision()).w
	ctx, cancel = context.WithCancel(waiting(t))
	ended = next(ctx, w)
	cancel()
	wantError(t, "Next whose context ends", <-ended, context.Canceled)

	w = startWatch(t, s, "/", s.Revision()).w
	ended = next(waiting(t), w)
	w.Close()
	if err := <-ended; err == nil {
		t.Error("Next returned no error after Close")
	}
	w.Close()
	if _, _, err := w.Next(waiting(t)); err == nil {
		t.Error("Next of a closed watch returned no error")
	}
}
