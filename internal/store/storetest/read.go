package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
)

// show prints a result as "key=value ..., +remaining".
func show(res store.Result) string {
	var b strings.Builder
	for _, r := range res.Records {
		fmt.Fprintf(&b, "%s=%s ", r.Key, r.Value)
	}
	if res.Remaining > 0 {
		fmt.Fprintf(&b, "+%d", res.Remaining)
	}
	return strings.TrimSpace(b.String())
}

func wantRange(t testing.TB, s store.Store, r store.Range, want string) store.Result {
	t.Helper()
	res, err := s.Range(t.Context(), r)
	if err != nil {
		t.Errorf("range %+v: %v", r, err)
	}
	if got := show(res); got != want {
		t.Errorf("range %+v:\n got %s\nwant %s", r, got, want)
	}
	return res
}

func testRange(t *testing.T, s store.Store) {
	for i, key := range []string{"/p/b", "/p/a", "/q/a", "/p/a/x", "/pp/a", "/p/c", "/p/b-1"} {
		put(t, s, key, fmt.Sprint(i))
	}
	del(t, s, "/p/c")
	wantRange(t, s, store.Range{Prefix: "/p/"}, "/p/a=1 /p/a/x=3 /p/b=0 /p/b-1=6")
	wantRange(t, s, store.Range{Prefix: "/p/a"}, "/p/a=1 /p/a/x=3")
	wantRange(t, s, store.Range{Prefix: "/q/"}, "/q/a=2")
	wantRange(t, s, store.Range{Prefix: "/r/"}, "")
	wantRange(t, s, store.Range{Prefix: ""}, "/p/a=1 /p/a/x=3 /p/b=0 /p/b-1=6 /pp/a=4 /q/a=2")
	wantRange(t, s, store.Range{Prefix: "/p/", Limit: 2}, "/p/a=1 /p/a/x=3 +2")
	wantRange(t, s, store.Range{Prefix: "/p/", Limit: 4}, "/p/a=1 /p/a/x=3 /p/b=0 /p/b-1=6")
	wantRange(t, s, store.Range{Prefix: "/p/", After: "/p/a"}, "/p/a/x=3 /p/b=0 /p/b-1=6")
	wantRange(t, s, store.Range{Prefix: "/p/", After: "/p/a/"}, "/p/a/x=3 /p/b=0 /p/b-1=6")
	wantRange(t, s, store.Range{Prefix: "/p/", After: "/a"}, "/p/a=1 /p/a/x=3 /p/b=0 /p/b-1=6")
	wantRange(t, s, store.Range{Prefix: "/p/", After: "/p/b-1"}, "")
	wantRange(t, s, store.Range{Prefix: "/p/", After: "/z"}, "")
	for prefix, want := range map[string]int{"": 6, "/p/": 4, "/p/a": 2, "/q/": 1, "/r/": 0} {
		if n, err := s.Count(t.Context(), prefix); n != want || err != nil {
			t.Errorf("count %q: got %d, %v, want %d", prefix, n, err, want)
		}
	}
}

// Pages read at the revision of the first are one consistent list, whatever is
// written between them.
func testPages(t *testing.T, s store.Store) {
	for i := range 50 {
		put(t, s, fmt.Sprintf("/p/%02d", i), "old")
	}
	put(t, s, "/q/1", "other")
	wantAll, err := s.Range(t.Context(), store.Range{Prefix: "/p/"})
	if err != nil {
		t.Fatal(err)
	}
	var got store.Result
	r := store.Range{Prefix: "/p/", Limit: 7}
	for page := 0; ; page++ {
		res, err := s.Range(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if r.Revision != 0 && res.Revision != r.Revision {
			t.Errorf("page %d is of revision %d, want %d", page, res.Revision, r.Revision)
		}
		got.Records = append(got.Records, res.Records...)
		if want := 50 - len(got.Records); res.Remaining != want {
			t.Errorf("page %d: %d remain, want %d", page, res.Remaining, want)
		}
		if res.Remaining == 0 {
			break
		}
		r.Revision = res.Revision
		r.After = res.Records[len(res.Records)-1].Key
		put(t, s, fmt.Sprintf("/p/%02d", page), "changed behind")
		put(t, s, fmt.Sprintf("/p/%02d", 49-page), "changed ahead")
		put(t, s, fmt.Sprintf("/p/%02d-new", 30+page), "created ahead")
		del(t, s, fmt.Sprintf("/p/%02d", 40-page))
	}
	if show(got) != show(wantAll) {
		t.Errorf("pages:\n got %s\nwant %s", show(got), show(wantAll))
	}
}

func testRangeBack(t *testing.T, s store.Store) {
	a := put(t, s, "/p/a", "1")
	b := put(t, s, "/p/b", "1")
	a2 := put(t, s, "/p/a", "2")
	d := del(t, s, "/p/b")
	b2 := put(t, s, "/p/b", "3")
	d2 := del(t, s, "/p/a")
	for _, c := range []struct {
		revision int64
		want     string
	}{
		{1, ""},
		{a.Revision, "/p/a=1"},
		{b.Revision, "/p/a=1 /p/b=1"},
		{a2.Revision, "/p/a=2 /p/b=1"},
		{d.Record.Revision, "/p/a=2"},
		{b2.Revision, "/p/a=2 /p/b=3"},
		{d2.Record.Revision, "/p/b=3"},
	} {
		res := wantRange(t, s, store.Range{Prefix: "/p/", Revision: c.revision}, c.want)
		if res.Revision != c.revision {
			t.Errorf("at %d: Result.Revision is %d", c.revision, res.Revision)
		}
		for _, r := range res.Records {
			if r.Revision > c.revision || r.Created > r.Revision {
				t.Errorf("at %d: %s has revision %d, created %d", c.revision, r.Key, r.Revision, r.Created)
			}
		}
	}
	wantRange(t, s, store.Range{Prefix: "/p/", Revision: a2.Revision, Limit: 1}, "/p/a=2 +1")
	wantRange(t, s, store.Range{Prefix: "/p/", Revision: a2.Revision, After: "/p/a"}, "/p/b=1")
}

func testRangeLimits(t *testing.T, s store.Store) {
	put(t, s, "/p/a", "1")
	_, err := s.Range(t.Context(), store.Range{Prefix: "/p/", Revision: s.Revision() + 1})
	wantError(t, "range in the future", err, store.ErrFuture)
}

func testCompact(t *testing.T, s store.Store) {
	ctx := t.Context()
	put(t, s, "/p/a", "1")
	put(t, s, "/p/b", "1")
	early := s.Revision()
	for i := range 5 {
		put(t, s, "/p/a", fmt.Sprint(i))
	}
	del(t, s, "/p/b")
	at := s.Revision()
	put(t, s, "/p/c", "1")
	put(t, s, "/p/a", "9")
	wantError(t, "compact in the future", s.Compact(ctx, s.Revision()+1), store.ErrFuture)
	if err := s.Compact(ctx, at); err != nil {
		t.Fatal(err)
	}
	if got := s.Oldest(); got != at {
		t.Errorf("oldest is %d after compact to %d", got, at)
	}
	_, err := s.Range(ctx, store.Range{Prefix: "/p/", Revision: early})
	wantError(t, "range before", err, store.ErrCompacted)
	if w, err := s.Watch(ctx, "/p/", early); err == nil {
		// An implementation may find out only when it reads.
		_, _, err = w.Next(waiting(t))
		wantError(t, "watch from before", err, store.ErrCompacted)
	} else {
		wantError(t, "watch from before", err, store.ErrCompacted)
	}
	wantRange(t, s, store.Range{Prefix: "/p/", Revision: at}, "/p/a=4")
	wantRange(t, s, store.Range{Prefix: "/p/"}, "/p/a=9 /p/c=1")
	w := startWatch(t, s, "/p/", at)
	w.want("+/p/c=1 /p/a=9")
	if err := s.Compact(ctx, early); err != nil && s.Oldest() != at {
		t.Errorf("compact of the compacted: %v, oldest %d", err, s.Oldest())
	}
}
