package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
)

// Random does steps of everything, one after the other, on a store and on the
// model, and compares. After a failure it prints the operations that led there.
func Random(t *testing.T, s store.Store, reopen Reopen, seed uint64, steps int) {
	r := &random{
		t: t, s: s, reopen: reopen, m: newModel(),
		rng: rand.New(rand.NewPCG(seed, 0)),
	}
	defer func() {
		if t.Failed() {
			from := max(0, len(r.ops)-200)
			t.Logf("seed %d, the last operations:\n%s", seed, strings.Join(r.ops[from:], "\n"))
		}
	}()
	for range steps {
		if r.step(); t.Failed() {
			return
		}
	}
	r.rangeAll()
}

type random struct {
	t      *testing.T
	s      store.Store
	reopen Reopen
	m      *model
	rng    *rand.Rand
	ops    []string
	open   []*watcher // with prefix and cursor in the fields below
	about  map[*watcher]string
}

func (r *random) step() {
	ctx := r.t.Context()
	switch n := r.rng.IntN(1000); {
	case n < 400:
		value := fmt.Appendf(nil, "%d", r.rng.IntN(1000))
		if r.rng.IntN(20) == 0 {
			value = make([]byte, r.rng.IntN(8000))
		}
		p := store.Put{Key: r.key(), Value: value}
		p.Expect = r.expect(p.Key)
		r.log("put %s %d bytes expect %d", p.Key, len(p.Value), p.Expect)
		want, wantErr := r.m.write(p.Key, p.Value, p.Expect)
		got, err := r.s.Put(ctx, p)
		r.same(err, wantErr)
		if err == nil {
			r.record(got, want.Record)
		}
	case n < 550:
		key := r.key()
		expect := r.expect(key)
		r.log("delete %s expect %d", key, expect)
		want, wantErr := r.m.write(key, nil, expect)
		got, err := r.s.Delete(ctx, key, expect)
		r.same(err, wantErr)
		if err == nil {
			r.event(got, want)
		}
	case n < 650:
		key := r.key()
		r.log("get %s", key)
		got, rev, err := r.s.Get(ctx, key)
		r.same(err, nil)
		r.record(got, r.m.get(key))
		if rev != r.m.revision {
			r.t.Errorf("at revision %d, want %d", rev, r.m.revision)
		}
	case n < 850:
		q := store.Range{Prefix: r.prefix(), Revision: r.revision()}
		if r.rng.IntN(2) == 0 {
			q.Limit = 1 + r.rng.IntN(10)
		}
		if r.rng.IntN(2) == 0 {
			q.After = r.key()
		}
		r.scan(q)
	case n < 870:
		prefix := r.prefix()
		r.log("count %s", prefix)
		want, _ := r.m.scan(store.Range{Prefix: prefix})
		got, err := r.s.Count(ctx, prefix)
		r.same(err, nil)
		if got != len(want.Records) {
			r.t.Errorf("got %d, want %d", got, len(want.Records))
		}
	case n < 900:
		r.watch(r.prefix(), max(1, r.revision()))
	case n < 985:
		if len(r.open) > 0 {
			r.follow(r.open[r.rng.IntN(len(r.open))])
		}
	case n < 990:
		rev := r.revision()
		r.log("compact %d", rev)
		err := r.s.Compact(ctx, rev)
		if rev > r.m.revision {
			r.same(err, store.ErrFuture)
			break
		}
		r.same(err, nil)
		r.m.oldest = max(r.m.oldest, rev)
		if got := r.s.Oldest(); got != r.m.oldest {
			r.t.Errorf("oldest is %d, want %d", got, r.m.oldest)
		}
	case n < 992 && r.reopen != nil:
		r.log("reopen")
		r.open = nil
		r.s = r.reopen(r.t, r.s)
		// A compaction need not be remembered at once.
		if got := r.s.Oldest(); got > r.m.oldest {
			r.t.Errorf("oldest is %d, want at most %d", got, r.m.oldest)
		} else if err := r.s.Compact(ctx, r.m.oldest); err != nil {
			r.t.Error(err)
		}
	}
	if got := r.s.Revision(); got != r.m.revision {
		r.t.Errorf("revision is %d, want %d", got, r.m.revision)
	}
}

func (r *random) log(format string, args ...any) { r.ops = append(r.ops, fmt.Sprintf(format, args...)) }

func (r *random) key() string {
	return fmt.Sprintf("/%c/%d", 'a'+r.rng.IntN(3), r.rng.IntN(12))
}

func (r *random) prefix() string {
	return []string{"", "/", "/a/", "/b/", "/c/", "/a/1", "/none/"}[r.rng.IntN(7)]
}

// expect is the right revision more often than not.
func (r *random) expect(key string) int64 {
	switch r.rng.IntN(6) {
	case 0:
		return store.Any
	case 1:
		return 0
	case 2:
		return r.rng.Int64N(r.m.revision + 1)
	}
	return revisionOf(r.m.get(key))
}

// revision is now, recent, any there was, or a little in the future.
func (r *random) revision() int64 {
	switch r.rng.IntN(6) {
	case 0:
		return r.m.revision
	case 1:
		return 1 + r.rng.Int64N(r.m.revision)
	case 2:
		return r.m.revision + r.rng.Int64N(3)
	}
	return max(1, r.m.revision-r.rng.Int64N(400))
}

func (r *random) scan(q store.Range) {
	r.log("range %+v", q)
	want, wantErr := r.m.scan(q)
	got, err := r.s.Range(r.t.Context(), q)
	r.same(err, wantErr)
	if err != nil {
		return
	}
	if len(got.Records) != len(want.Records) || got.Remaining != want.Remaining || got.Revision != want.Revision {
		r.t.Errorf("got %s at %d, want %s at %d", show(got), got.Revision, show(want), want.Revision)
		return
	}
	for i := range want.Records {
		r.record(got.Records[i], want.Records[i])
	}
}

// rangeAll reads the whole past.
func (r *random) rangeAll() {
	for rev := r.m.oldest; rev <= r.m.revision; rev += 1 + r.rng.Int64N(50) {
		r.scan(store.Range{Prefix: "/", Revision: rev})
	}
}

func (r *random) watch(prefix string, after int64) {
	r.log("watch %q after %d", prefix, after)
	ctx := waiting(r.t)
	w, err := r.s.Watch(ctx, prefix, after)
	if after < r.m.oldest {
		if err == nil {
			_, _, err = w.Next(ctx)
		}
		wantError(r.t, "watch", err, store.ErrCompacted)
		return
	}
	if err != nil {
		r.t.Error(err)
		return
	}
	if r.about == nil {
		r.about = map[*watcher]string{}
	}
	nw := &watcher{t: r.t, ctx: ctx, w: w, upTo: after, last: after}
	r.about[nw] = prefix
	r.open = append(r.open, nw)
}

// follow reads a watch up to now, or finds it compacted; now and then it is
// closed and begun again where it ended.
func (r *random) follow(w *watcher) {
	prefix := r.about[w]
	r.log("follow %q after %d", prefix, w.last)
	want := r.m.since(prefix, w.last)
	for len(want) > 0 {
		got, err := w.next()
		if errors.Is(err, store.ErrCompacted) && w.last < r.m.oldest {
			r.drop(w)
			return
		}
		if err != nil {
			r.t.Error(err)
			return
		}
		if len(got) > len(want) {
			r.t.Errorf("got %s, want %s", showEvents(got), showEvents(want))
			return
		}
		for i := range got {
			r.event(got[i], want[i])
		}
		want = want[len(got):]
	}
	if r.rng.IntN(4) == 0 {
		r.drop(w)
		r.watch(prefix, w.upTo)
	}
}

func (r *random) drop(w *watcher) {
	w.w.Close()
	for i, o := range r.open {
		if o == w {
			r.open = append(r.open[:i], r.open[i+1:]...)
			return
		}
	}
}

// same compares errors.
func (r *random) same(got, want error) {
	r.t.Helper()
	var g, w *store.Conflict
	switch {
	case errors.As(want, &w):
		if !errors.As(got, &g) || g.Key != w.Key || g.Expect != w.Expect {
			r.t.Errorf("got error %v, want %v", got, want)
			return
		}
		r.record(g.Current, w.Current)
	case !errors.Is(got, want):
		r.t.Errorf("got error %v, want %v", got, want)
	}
}

func (r *random) record(got, want *store.Record) {
	r.t.Helper()
	if diff := diffRecord(got, want); diff != "" {
		r.t.Error(diff)
	}
}

func (r *random) event(got, want store.Event) {
	r.t.Helper()
	r.record(got.Prev, want.Prev)
	if got.Record.Key != want.Record.Key || got.Record.Revision != want.Record.Revision ||
		got.Deleted() != want.Deleted() || string(got.Record.Value) != string(want.Record.Value) {
		r.t.Errorf("got event %s at %d, want %s at %d", got.Record.Key, got.Record.Revision,
			want.Record.Key, want.Record.Revision)
	}
}

func diffRecord(got, want *store.Record) string {
	if got == nil || want == nil {
		if got == want {
			return ""
		}
		return fmt.Sprintf("got record %v, want %v", got, want)
	}
	if got.Key != want.Key || got.Revision != want.Revision || got.Created != want.Created ||
		string(got.Value) != string(want.Value) {
		return fmt.Sprintf("got %s=%.20q at %d created %d, want %s=%.20q at %d created %d",
			got.Key, got.Value, got.Revision, got.Created,
			want.Key, want.Value, want.Revision, want.Created)
	}
	return ""
}
