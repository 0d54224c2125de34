package local

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-project/setpoint/internal/store"
)

var treeKeys = []string{"/a", "/a/", "/a/b", "/a/b/c", "/a0", "/b/1", "/b/2", "/b\xff", "/b\xff\xff/x", "\xff", "\xff\xff"}

func treeOf(keys ...string) tree {
	t := newTree()
	for i, k := range keys {
		t.t.Set(&store.Record{Key: k, Revision: int64(i)})
	}
	return t
}

// Prefixes and positions, each compared with a look at every key.
func TestTreeAscendAndCount(t *testing.T) {
	tr := treeOf(treeKeys...)
	slices.Sort(treeKeys)
	for _, prefix := range append([]string{"", "/", "/b", "/c", "\xff\xff\xff"}, treeKeys...) {
		for _, after := range append([]string{"", "/0", "/a/a", "/z", "\xff\xff\xff"}, treeKeys...) {
			want := []string{}
			for _, k := range treeKeys {
				if strings.HasPrefix(k, prefix) && k > after {
					want = append(want, k)
				}
			}
			got := []string{}
			tr.ascend(prefix, after, func(r *store.Record) bool {
				got = append(got, r.Key)
				return true
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ascend %q after %q:\n%s", prefix, after, diff)
			}
			if n := tr.countAfter(prefix, after); n != len(want) {
				t.Errorf("count %q after %q: got %d, want %d", prefix, after, n, len(want))
			}
		}
	}
}

func TestTreeRank(t *testing.T) {
	tr := newTree()
	for i := range 1000 {
		tr.t.Set(&store.Record{Key: fmt.Sprintf("%04d", i*2)})
	}
	for i := range 2001 {
		if got, want := tr.rank(fmt.Sprintf("%04d", i)), min(1000, (i+1)/2); got != want {
			t.Errorf("rank of %d: got %d, want %d", i, got, want)
		}
	}
}

// A snapshot does not change when the tree does.
func TestTreeSnapshot(t *testing.T) {
	tr := newTree()
	var snapshots []tree
	for i := range 300 {
		snapshots = append(snapshots, tr.snapshot())
		tr.t.Set(&store.Record{Key: fmt.Sprintf("%04d", i*7%300)})
	}
	for i := range 300 {
		tr.t.Delete(&store.Record{Key: fmt.Sprintf("%04d", i)})
	}
	for i, s := range snapshots {
		if s.len() != i {
			t.Errorf("snapshot %d has %d keys", i, s.len())
		}
		for j := range 300 {
			if got, want := s.get(fmt.Sprintf("%04d", j*7%300)) != nil, j < i; got != want {
				t.Errorf("snapshot %d has key %d: %v", i, j, got)
			}
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "/a/": "/a0", "a\xff": "b", "\xff\xff": ""} {
		if got := prefixEnd(prefix); got != want {
			t.Errorf("%q: got %q, want %q", prefix, got, want)
		}
	}
}
