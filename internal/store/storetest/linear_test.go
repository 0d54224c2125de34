package storetest

import "testing"

// The checker must find what is wrong, or the tests that use it say nothing.
func TestCheckLinear(t *testing.T) {
	put := func(begin, end, expect, revision int64) call {
		return call{begin: begin, end: end, kind: written, key: "k", expect: expect, revision: revision, found: revision}
	}
	get := func(begin, end, revision, found int64) call {
		return call{begin: begin, end: end, kind: read, key: "k", revision: revision, found: found}
	}
	refuse := func(begin, end, expect, found int64) call {
		return call{begin: begin, end: end, kind: refused, key: "k", expect: expect, found: found}
	}
	del := func(begin, end, expect, revision int64) call {
		return call{begin: begin, end: end, kind: deleted, key: "k", expect: expect, revision: revision}
	}
	for _, c := range []struct {
		name  string
		ok    bool
		calls []call
	}{
		{"one after the other", true, []call{put(1, 2, 0, 2), get(3, 4, 2, 2), put(5, 6, 2, 3), del(7, 8, 3, 4), get(9, 10, 4, 0)}},
		{"overlapping writes in either order", true, []call{put(1, 4, -1, 3), put(2, 3, -1, 2)}},
		{"read during a write sees it", true, []call{put(1, 4, 0, 2), get(2, 3, 2, 2)}},
		{"read during a write does not see it", true, []call{put(1, 4, 0, 2), get(2, 3, 1, 0)}},
		{"refused by a write under way", true, []call{put(1, 4, 0, 2), refuse(2, 3, 0, 2)}},
		{"refused rightly", true, []call{put(1, 2, 0, 2), refuse(3, 4, 0, 2)}},

		{"stale read", false, []call{put(1, 2, 0, 2), get(3, 4, 1, 0)}},
		{"read of the future", false, []call{get(1, 2, 2, 2), put(3, 4, 0, 2)}},
		{"read of what was not written", false, []call{put(1, 2, 0, 2), get(3, 4, 2, 0)}},
		{"reads go back", false, []call{put(1, 9, 0, 2), get(2, 3, 2, 2), get(4, 5, 1, 0)}},
		{"revisions against the clock", false, []call{put(1, 2, -1, 3), put(3, 4, -1, 2)}},
		{"revision twice", false, []call{put(1, 3, -1, 2), put(2, 4, -1, 2)}},
		{"both creations won", false, []call{put(1, 3, 0, 2), put(2, 4, 0, 3)}},
		{"lost update", false, []call{put(1, 2, 0, 2), put(3, 6, 2, 3), put(4, 5, 2, 4)}},
		{"deleted twice", false, []call{put(1, 2, 0, 2), del(3, 4, -1, 3), del(5, 6, -1, 4)}},
		{"refused without reason", false, []call{put(1, 2, 0, 2), refuse(3, 4, 2, 2)}},
		{"refused by what is long gone", false, []call{put(1, 2, 0, 2), put(3, 4, 2, 3), refuse(5, 6, 0, 2)}},
	} {
		if err := checkLinear(c.calls); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want ok %v", c.name, err, c.ok)
		}
	}
}
