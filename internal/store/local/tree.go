package local

import (
	"sort"
	"strings"

	"github.com/tidwall/btree"

	"github.com/setpoint-project/setpoint/internal/store"
)

// tree is the live set in byte order of keys. Copies share nodes until one of
// them is written to, so a snapshot costs nothing and a write copies a path.
//
// Items are pointers, not pairs of key and pointer: nodes are a third of the
// size, and copying nodes is most of what a small batch costs.
type tree struct {
	t *btree.BTreeG[*store.Record]
}

func newTree() tree {
	less := func(a, b *store.Record) bool { return a.Key < b.Key }
	return tree{btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

func (t tree) get(key string) *store.Record {
	r, _ := t.t.Get(&store.Record{Key: key})
	return r
}

func (t tree) len() int { return t.t.Len() }

// snapshot returns a copy for readers; the receiver stays writable. Only the
// owner of a tree may call it.
func (t tree) snapshot() tree { return tree{t.t.Copy()} }

// ascend visits the records with prefix and behind after.
func (t tree) ascend(prefix, after string, visit func(*store.Record) bool) {
	t.t.Ascend(&store.Record{Key: max(prefix, after)}, func(r *store.Record) bool {
		if r.Key == after {
			return true
		}
		return strings.HasPrefix(r.Key, prefix) && visit(r)
	})
}

// rank counts the keys before key.
func (t tree) rank(key string) int {
	return sort.Search(t.len(), func(i int) bool {
		r, _ := t.t.GetAt(i)
		return r.Key >= key
	})
}

// countAfter counts the keys with prefix behind after.
func (t tree) countAfter(prefix, after string) int {
	end := t.len()
	if e := prefixEnd(prefix); e != "" {
		end = t.rank(e)
	}
	start := prefix
	if after != "" && after >= prefix {
		start = after + "\x00"
	}
	if start == "" {
		return end
	}
	return max(0, end-t.rank(start))
}

// prefixEnd is the first key behind all keys with prefix; "" is the end of
// all keys.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if c := prefix[i]; c != 0xff {
			return prefix[:i] + string([]byte{c + 1})
		}
	}
	return ""
}
