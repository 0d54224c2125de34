package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
)

func testFresh(t *testing.T, s store.Store) {
	if got := s.Revision(); got != 1 {
		t.Errorf("revision of a fresh store is %d, want 1", got)
	}
	r, rev, err := s.Get(t.Context(), "/a/b")
	if r != nil || rev != 1 || err != nil {
		t.Errorf("get: got %v, %d, %v, want nothing at 1", r, rev, err)
	}
	res, err := s.Range(t.Context(), store.Range{Prefix: "/"})
	if len(res.Records) != 0 || res.Revision != 1 || err != nil {
		t.Errorf("range: got %v, %v, want nothing at 1", res, err)
	}
	if n, err := s.Count(t.Context(), "/"); n != 0 || err != nil {
		t.Errorf("count: got %d, %v, want 0", n, err)
	}
}

func testPut(t *testing.T, s store.Store) {
	a := put(t, s, "/a", "1")
	b := put(t, s, "/b", "2")
	c := put(t, s, "/a", "3")
	want(t, "first put", a, "/a", "1", a.Revision, a.Revision)
	want(t, "put of another key", b, "/b", "2", b.Revision, b.Revision)
	want(t, "second put", c, "/a", "3", c.Revision, a.Revision)
	if !(1 < a.Revision && a.Revision < b.Revision && b.Revision < c.Revision) {
		t.Errorf("revisions %d, %d, %d do not rise", a.Revision, b.Revision, c.Revision)
	}
	got, rev, err := s.Get(t.Context(), "/a")
	if err != nil || rev != c.Revision || s.Revision() != c.Revision {
		t.Errorf("get: at %d, %v, want %d", rev, err, c.Revision)
	}
	want(t, "get", got, "/a", "3", c.Revision, a.Revision)
	if _, err := s.Put(t.Context(), store.Put{Key: "", Value: []byte("x")}); err == nil {
		t.Error("an empty key was taken")
	}
}

func testConditions(t *testing.T, s store.Store) {
	ctx := t.Context()
	try := func(what, key string, expect int64, current *store.Record) *store.Record {
		t.Helper()
		before := s.Revision()
		r, err := s.Put(ctx, store.Put{Key: key, Value: []byte(what), Expect: expect})
		if current == nil && err == nil {
			return r
		}
		wantConflict(t, what, err, key, expect, current)
		if s.Revision() != before {
			t.Errorf("%s: a refused write took a revision", what)
		}
		return nil
	}
	a := try("create", "/a", 0, nil)
	try("create again", "/a", 0, a)
	try("wrong revision", "/a", a.Revision+7, a)
	b := try("right revision", "/a", a.Revision, nil)
	try("stale revision", "/a", a.Revision, b)

	_, err := s.Put(ctx, store.Put{Key: "/missing", Expect: b.Revision})
	wantConflict(t, "update of a missing key", err, "/missing", b.Revision, nil)
	_, err = s.Delete(ctx, "/missing", store.Any)
	wantConflict(t, "delete of a missing key", err, "/missing", store.Any, nil)
	_, err = s.Delete(ctx, "/a", a.Revision)
	wantConflict(t, "delete at a stale revision", err, "/a", a.Revision, b)

	if _, err := s.Delete(ctx, "/a", b.Revision); err != nil {
		t.Errorf("delete at the right revision: %v", err)
	}
	_, err = s.Put(ctx, store.Put{Key: "/a", Expect: b.Revision})
	wantConflict(t, "update of a deleted key", err, "/a", b.Revision, nil)
	c := try("create after delete", "/a", 0, nil)
	if c.Created != c.Revision {
		t.Errorf("created again at %d, but Created is %d", c.Revision, c.Created)
	}
}

func testDelete(t *testing.T, s store.Store) {
	a := put(t, s, "/a", "1")
	e := del(t, s, "/a")
	if !e.Deleted() || e.Record.Key != "/a" || e.Record.Revision <= a.Revision {
		t.Errorf("got event %+v, want a deletion of /a after %d", e.Record, a.Revision)
	}
	if e.Prev == nil {
		t.Fatal("the deletion has no Prev")
	}
	want(t, "Prev", e.Prev, "/a", "1", a.Revision, a.Revision)
	r, rev, err := s.Get(t.Context(), "/a")
	if r != nil || rev != e.Record.Revision || err != nil {
		t.Errorf("get: got %v, %d, %v, want nothing at %d", r, rev, err, e.Record.Revision)
	}
}

// A write may depend on the revision that it gets.
func testFill(t *testing.T, s store.Store) {
	fill := func(revision int64) ([]byte, any) { return fmt.Append(nil, revision), revision }
	r, err := s.Put(t.Context(), store.Put{Key: "/a", Value: []byte("no"), Fill: fill})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "filled", r, "/a", fmt.Sprint(r.Revision), r.Revision, r.Revision)
	if d := r.Decoded.Load(); d == nil || *d != any(r.Revision) {
		t.Errorf("Decoded is %v, want %d", d, r.Revision)
	}
	called := false
	_, err = s.Put(t.Context(), store.Put{Key: "/a", Expect: 0, Fill: func(int64) ([]byte, any) {
		called = true
		return nil, nil
	}})
	wantConflict(t, "conflict", err, "/a", 0, r)
	if called {
		t.Error("Fill was called for a refused write")
	}
}

// No bytes are a value, not a deletion.
func testEmptyValue(t *testing.T, s store.Store) {
	for _, v := range [][]byte{nil, {}} {
		r, err := s.Put(t.Context(), store.Put{Key: "/a", Value: v, Expect: store.Any})
		if err != nil || r.Value == nil {
			t.Errorf("put of %#v: got value %#v, %v", v, r.Value, err)
		}
		r, _, err = s.Get(t.Context(), "/a")
		if err != nil || r == nil || r.Value == nil || len(r.Value) != 0 {
			t.Errorf("get after put of %#v: got %v, %v", v, r, err)
		}
	}
}

// Whoever reads the live record finds what was decoded by the writer.
func testDecoded(t *testing.T, s store.Store) {
	type object struct{ name string }
	o := &object{"x"}
	if _, err := s.Put(t.Context(), store.Put{Key: "/a", Value: []byte("x"), Decoded: o}); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, s, "/", 1)
	r, _, err := s.Get(t.Context(), "/a")
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Range(t.Context(), store.Range{Prefix: "/"})
	if err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]*store.Record{
		"get": r, "range": res.Records[0], "watch": w.need(1)[0].Record,
	} {
		if d := r.Decoded.Load(); d == nil || *d != any(o) {
			t.Errorf("%s: Decoded is %v, want the object of the writer", what, d)
		}
	}
}

func testCanceledWrite(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Put(ctx, store.Put{Key: "/a", Value: []byte("x")})
	wantError(t, "put", err, context.Canceled)
	if r, _, _ := s.Get(t.Context(), "/a"); r != nil {
		t.Error("a write whose context had ended before was carried out")
	}
}

func testClosed(t *testing.T, s store.Store) {
	ctx := waiting(t)
	put(t, s, "/a", "1")
	w, err := s.Watch(ctx, "/", s.Revision())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, _, err := w.Next(ctx)
		ended <- err
	}()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	wantError(t, "a watch under way", <-ended, store.ErrClosed)
	_, _, err = s.Get(ctx, "/a")
	wantError(t, "get", err, store.ErrClosed)
	_, err = s.Range(ctx, store.Range{Prefix: "/"})
	wantError(t, "range", err, store.ErrClosed)
	_, err = s.Put(ctx, store.Put{Key: "/a", Expect: store.Any})
	wantError(t, "put", err, store.ErrClosed)
	_, err = s.Delete(ctx, "/a", store.Any)
	wantError(t, "delete", err, store.ErrClosed)
	_, err = s.Watch(ctx, "/", 1)
	wantError(t, "watch", err, store.ErrClosed)
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func want(t testing.TB, what string, r *store.Record, key, value string, revision, created int64) {
	t.Helper()
	if r == nil {
		t.Errorf("%s: got nothing, want %s", what, key)
		return
	}
	if r.Key != key || string(r.Value) != value || r.Revision != revision || r.Created != created {
		t.Errorf("%s: got %s=%q at %d created %d, want %s=%q at %d created %d", what,
			r.Key, r.Value, r.Revision, r.Created, key, value, revision, created)
	}
}

func wantConflict(t testing.TB, what string, err error, key string, expect int64, current *store.Record) {
	t.Helper()
	var c *store.Conflict
	if !errors.As(err, &c) {
		t.Errorf("%s: got %v, want a conflict", what, err)
		return
	}
	if c.Key != key || c.Expect != expect || revisionOf(c.Current) != revisionOf(current) {
		t.Errorf("%s: got conflict %v, want %s at %d, expected %d", what, c, key, revisionOf(current), expect)
	}
}

// revisionOf is 0 when there is no record.
func revisionOf(r *store.Record) int64 {
	if r == nil {
		return 0
	}
	return r.Revision
}
